import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import type { ShouldPause } from './legal-search.ts';
import type { TextState } from './text-state.ts';
import type { TokenSet } from './token-set.ts';
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
  clone(): ConstraintState;
}

/** A reply of one grammar: its text, then the end token. */
export class ReplyState implements ConstraintState {
  readonly #ending: Ending;
  #text: TextState;
  #ended = false;

  constructor(text: TextState, ending: Ending) {
    this.#text = text;
    this.#ending = ending;
  }

  get ended(): boolean {
    return this.#ended;
  }

  get freeText(): boolean {
    return !this.#ended && this.#text.freeText;
  }

  takeForced(): number[] {
    const taken: number[] = [];
    while (!this.#ended) {
      const forced = this.#text.complete ? null : this.#text.forced;
      if (forced) {
        for (const token of forced.tokens) taken.push(token);
        this.#text = forced.after;
      } else if (this.#mustEnd()) {
        taken.push(this.#ending.token);
        this.#ended = true;
      } else break;
    }
    return taken;
  }

  legal(): TokenSet {
    const text = this.#decision();
    return text.complete ? this.#ending.after(text.legal) : text.legal;
  }

  prepare(shouldPause: ShouldPause): boolean {
    return this.#text.prepare(shouldPause);
  }

  accept(token: number): void {
    const text = this.#decision();
    if (text.complete && token === this.#ending.token) this.#ended = true;
    else if (text.legal.has(token)) this.#text = text.after(token);
    else
      throw new LanguageError(
        'illegal_token',
        `Token ${token} is not one of the ${this.legal().size} legal tokens.`,
      );
  }

  clone(): ReplyState {
    const copy = new ReplyState(this.#text, this.#ending);
    copy.#ended = this.#ended;
    return copy;
  }

  #decision(): TextState {
    if (this.#ended)
      throw new LanguageError('reply_ended', 'The reply has ended. No token follows its end token.');
    if (this.#text.complete ? this.#mustEnd() : this.#text.forced) throw forcedTokensDue();
    return this.#text;
  }

  #mustEnd(): boolean {
    return this.#text.complete && !this.#text.hasLegal;
  }
}

/** The token that ends a reply, with the sets of tokens among which it is legal. */
export class Ending {
  readonly token: number;
  readonly #sets = new WeakMap<TokenSet, TokenSet>();

  constructor(token: number) {
    this.token = token;
  }

  /** Legal tokens of a text that may end here. */
  after(text: TokenSet): TokenSet {
    return getOrInsert(this.#sets, text, () => text.with(Int32Array.of(this.token)));
  }
}

export const forcedTokensDue = () =>
  new LanguageError('forced_tokens_due', 'The constraint forces the next tokens. Call takeForced() first.');
