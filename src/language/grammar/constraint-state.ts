import { LanguageError } from '../error.ts';
import type { Constraint } from './constraint.ts';
import type { ShouldPause } from './legal-search.ts';
import type { TextState } from './text-state.ts';
import { TokenSet } from './token-set.ts';
import type { TokenTrie } from './token-trie.ts';

export interface CompiledConstraint {
  /** The state of a reply that has not begun. */
  start(): ConstraintState;
  /** The text tokens of its vocabulary. */
  readonly trie: TokenTrie;
}

/** The state of a reply under its constraint. It depends only on the constraint and the tokens so far. */
export interface ConstraintState {
  /** Takes and returns the tokens that have no alternative; empty at a decision. The last may be the end token. */
  takeForced(): number[];
  /** The legal tokens. Call it at a decision: after `takeForced()`, and not when ended. */
  legal(): TokenSet;
  /**
   * Computes what `legal()` will return, until `shouldPause()`; returns true once it is ready. Call it at a decision, like
   * `legal()`. Throws a `LanguageError` if the grammar is too complex.
   */
  prepare(shouldPause: ShouldPause): boolean;
  /** Takes a legal token. Throws a `LanguageError` for any other. */
  accept(token: number): void;
  /** Whether the end token was taken. */
  readonly ended: boolean;
  /** Whether this is a position in free text, which is tokenized as usual. */
  readonly freeText: boolean;
  /** An independent copy. */
  clone(): ConstraintState;
  /** Releases the grammar. The state must not be used afterwards. */
  dispose(): void;
}

const NO_TOKENS = new Int32Array(0);
const EMPTY = TokenSet.of(NO_TOKENS);

export class BranchedState implements ConstraintState {
  readonly #branches: Branches;
  #branch: Branch | null;
  /** Null before the first branch. */
  #text: TextState | null;
  #isEmpty = true;
  #ended = false;

  constructor(branches: Branches) {
    this.#branches = branches;
    this.#branch = branches.withoutToken;
    this.#text = this.#branch?.start() ?? null;
  }

  get ended(): boolean {
    return this.#ended;
  }

  get freeText(): boolean {
    return !this.#ended && this.#text?.freeText === true;
  }

  takeForced(): number[] {
    const taken: number[] = [];
    while (!this.#ended) {
      const special = this.#special();
      const forced = special.length === 0 ? (this.#text?.forced ?? null) : null;
      if (forced) {
        for (const token of forced.tokens) taken.push(token);
        this.#text = forced.after;
        this.#isEmpty = false;
      } else if (this.#isForced(special)) {
        taken.push(special[0]!);
        this.#takeSpecial(special[0]!);
      } else break;
    }
    return taken;
  }

  legal(): TokenSet {
    const special = this.#decision();
    const text = this.#text?.legal ?? EMPTY;
    return special.length === 0 ? text : this.#branches.merge(text, special);
  }

  prepare(shouldPause: ShouldPause): boolean {
    return this.#text?.prepare(shouldPause) ?? true;
  }

  accept(token: number): void {
    const special = this.#decision();
    if (special.includes(token)) this.#takeSpecial(token);
    else if (this.#text?.legal.has(token)) {
      this.#text = this.#text.after(token);
      this.#isEmpty = false;
    } else
      throw new LanguageError(
        'illegal_token',
        `Token ${token} is not one of the ${this.legal().size} legal tokens.`,
      );
  }

  clone(): BranchedState {
    const copy = new BranchedState(this.#branches);
    copy.#branch = this.#branch;
    copy.#text = this.#text;
    copy.#isEmpty = this.#isEmpty;
    copy.#ended = this.#ended;
    return copy;
  }

  dispose(): void {
    this.#ended = true;
    this.#branch = null;
    this.#text = null;
  }

  /** Special tokens that are legal here. Throws if there is nothing to decide. */
  #decision(): Int32Array {
    if (this.#ended)
      throw new LanguageError('reply_ended', 'The reply has ended. No token follows its end token.');
    const special = this.#special();
    if (special.length === 0 ? this.#text?.forced : this.#isForced(special))
      throw new LanguageError(
        'forced_tokens_due',
        'The constraint forces the next tokens. Call takeForced() first.',
      );
    return special;
  }

  #isForced(special: Int32Array): boolean {
    return special.length === 1 && this.#text?.hasLegal !== true;
  }

  /** Special tokens that are legal here. */
  #special(): Int32Array {
    if (!this.#text || (this.#isEmpty && !this.#text.complete)) return this.#branches.opening;
    if (this.#isEmpty) return this.#branches.openingOrEnd;
    return this.#text.complete && this.#branch ? this.#branches.after(this.#branch) : NO_TOKENS;
  }

  #takeSpecial(token: number): void {
    this.#isEmpty = false;
    if (token === this.#branches.endToken) {
      this.#ended = true;
      return;
    }
    this.#branch = this.#branches.openedBy(token);
    this.#text = this.#branch?.start() ?? null;
  }
}

export interface Branch {
  open: number | null;
  repeat: boolean;
  start(): TextState;
  freeText: boolean;
}

/** The branches of a constraint, and the special tokens that open and end them. */
export class Branches {
  readonly endToken: number;
  /** The branch without an opening token, if there is one. */
  readonly withoutToken: Branch | null;
  readonly #byToken = new Map<number, Branch>();
  /** Merged sets, by their text tokens and their special tokens. */
  readonly #merged = new WeakMap<TokenSet, Map<Int32Array, TokenSet>>();
  /** Special tokens that may begin a reply. */
  readonly opening: Int32Array;
  /** `opening` and the end token, for a reply that may be empty. */
  readonly openingOrEnd: Int32Array;
  /** Special tokens that may follow a branch that repeats, or a text branch. */
  readonly following: Int32Array;
  /** Special tokens that may follow any other branch. */
  readonly end: Int32Array;

  constructor(branches: readonly Branch[], endToken: number) {
    this.endToken = endToken;
    this.withoutToken = branches.find(({ open }) => open === null) ?? null;
    for (const branch of branches) if (branch.open !== null) this.#byToken.set(branch.open, branch);
    const opened = [...this.#byToken].filter(([, { repeat }]) => repeat).map(([token]) => token);
    this.opening = Int32Array.from(this.#byToken.keys()).sort();
    this.openingOrEnd = Int32Array.from([...this.#byToken.keys(), endToken]).sort();
    this.following = Int32Array.from([...opened, endToken]).sort();
    this.end = Int32Array.of(endToken);
  }

  /** Special tokens that may follow a complete branch. */
  after(branch: Branch): Int32Array {
    return branch.repeat || branch.freeText ? this.following : this.end;
  }

  /** Legal text tokens and special tokens. Each pair is merged once. */
  merge(text: TokenSet, special: Int32Array): TokenSet {
    const bySpecial = this.#merged.get(text) ?? new Map<Int32Array, TokenSet>();
    this.#merged.set(text, bySpecial);
    const both = bySpecial.get(special) ?? text.with(special);
    bySpecial.set(special, both);
    return both;
  }

  openedBy(token: number): Branch | null {
    return this.#byToken.get(token) ?? null;
  }
}

/** Refuses constraints whose branches cannot be distinguished. */
export function checkBranches(
  { branches }: Constraint,
  special: ReadonlySet<number>,
  endToken: number,
): void {
  const refuse = (message: string): never => {
    throw new LanguageError('constraint_invalid', `Constraint: ${message}.`);
  };
  if (branches.length === 0) refuse('it has no branch, so it allows no reply');
  const seen = new Set<number | null>();
  for (const { open, repeat } of branches) {
    if (seen.has(open))
      refuse(
        open === null
          ? 'two branches begin without a special token'
          : `two branches begin with token ${open}; combine their grammars`,
      );
    seen.add(open);
    if (open === null && repeat) refuse('a branch that repeats must begin with a special token');
    if (open !== null && (!special.has(open) || open === endToken))
      refuse(`a branch begins with token ${open}, which is not a special token that may begin one`);
  }
}
