import { LanguageError } from '../error.ts';
import type { Automaton, AutomatonState } from './automaton.ts';
import type { IsOver, LegalSets, LegalTokensWalk, TokenTrie } from './token-trie.ts';

/** A text that is forced without end would otherwise be followed for ever. */
const LONGEST_FORCED_BYTES = 1 << 14;
/** Nodes visited for it: some 20 milliseconds, in which nobody else is sampled for. */
const MAXIMUM_FORCED_VISITS = 50_000;
/** Legal tokens that take as much memory as a position of a state. */
const TOKENS_OF_A_POSITION = 16;
interface Forced {
  tokens: readonly number[];
  after: TextState;
}

/** A place in a branch's text, seen in tokens: what may come, what must come, where each token leads. */
export interface TextState {
  /** The text may end here. */
  readonly complete: boolean;
  readonly legal: Int32Array;
  /** Whether there is a legal token at all. */
  readonly hasLegal: boolean;
  /** Works on what `legal` will say until it is over; true once that costs nothing any more. */
  prepare(isOver: IsOver): boolean;
  /** What must come next, and the state behind it; null where there is a choice. */
  readonly forced: Forced | null;
  /** The state after a legal token. */
  after(token: number): TextState;
}

/** Any text: one state that every token leads back to. */
export class FreeTextState implements TextState {
  readonly complete = true;
  readonly forced = null;
  readonly hasLegal = true;
  readonly legal: Int32Array;

  constructor(trie: TokenTrie) {
    this.legal = trie.textTokens;
  }

  prepare(): boolean {
    return true;
  }

  after(): TextState {
    return this;
  }
}

/** The tokens of a model as grammars see them. */
export interface Vocabulary {
  trie: TokenTrie;
  sets: LegalSets;
  bytesOf: (token: number) => Uint8Array;
}

/** The way to a set of legal tokens, and what it has cost so far. */
interface LegalWork {
  walk: LegalTokensWalk;
  effort: number;
}

/** The token view of an automaton's states. It is computed once a state and goes with it. */
export class GrammarText {
  readonly #automaton: Automaton;
  readonly #trie: TokenTrie;
  readonly #bytesOf: (token: number) => Uint8Array;
  readonly #views = new WeakMap<AutomatonState, TextState>();
  readonly #sets: LegalSets;

  constructor(automaton: Automaton, { trie, sets, bytesOf }: Vocabulary) {
    this.#automaton = automaton;
    this.#trie = trie;
    this.#bytesOf = bytesOf;
    this.#sets = sets;
  }

  get start(): TextState {
    return this.at(this.#automaton.start);
  }

  at(state: AutomatonState): TextState {
    let view = this.#views.get(state);
    if (!view) {
      view = new GrammarTextState(this, state);
      this.#views.set(state, view);
    }
    return view;
  }

  beginLegal(state: AutomatonState): LegalWork {
    return { walk: this.#trie.legalTokens(state), effort: 0 };
  }

  /** Goes on with it until it is over; null where it is not through. */
  goOnLegal(work: LegalWork, isOver: IsOver): Int32Array | null {
    this.#automaton.renewEffort({ spent: work.effort });
    try {
      const tokens = work.walk.goOn(isOver);
      return tokens && this.#keep(tokens);
    } finally {
      work.effort = this.#automaton.effort;
    }
  }

  hasLegal(state: AutomatonState): boolean {
    this.#automaton.renewEffort();
    return this.#trie.hasLegalToken(state);
  }

  /** Few sets serve many states: the positions in a string of bounded length, for one. */
  #keep(tokens: Int32Array): Int32Array {
    const known = this.#sets.find(tokens);
    if (known === tokens) this.#automaton.hold(Math.ceil(tokens.length / TOKENS_OF_A_POSITION));
    return known;
  }

  /** The bytes that must come next. */
  forcedBytes(state: AutomatonState): number[] {
    this.#automaton.renewEffort({ limit: MAXIMUM_FORCED_VISITS });
    const bytes: number[] = [];
    let reached = state;
    for (let byte = reached.onlyByte; byte !== null; byte = reached.onlyByte) {
      const next = reached.step(byte);
      if (!next || bytes.length >= LONGEST_FORCED_BYTES)
        throw new LanguageError(
          'grammar_endless',
          `the grammar forces more than ${LONGEST_FORCED_BYTES} bytes at once, perhaps without end: give a recursion a way out, such as null`,
        );
      bytes.push(byte);
      reached = next;
    }
    return bytes;
  }

  encode(bytes: readonly number[]): number[] {
    return this.#trie.encodeBytes(bytes);
  }

  after(state: AutomatonState, token: number): TextState {
    const reached = this.follow(state, this.#bytesOf(token));
    if (!reached) throw new LanguageError('illegal_token', `the grammar does not admit token ${token} here`);
    return reached;
  }

  /** The state after some bytes; null where they leave the grammar. */
  follow(state: AutomatonState, bytes: Iterable<number>): TextState | null {
    this.#automaton.renewEffort();
    let reached: AutomatonState | null = state;
    for (const byte of bytes) reached = reached?.step(byte) ?? null;
    return reached && this.at(reached);
  }
}

const never = () => false;

class GrammarTextState implements TextState {
  readonly complete: boolean;
  readonly #text: GrammarText;
  readonly #state: AutomatonState;
  #work: LegalWork | undefined;
  #legal: Int32Array | undefined;
  #hasLegal: boolean | undefined;
  #forcedBytes: number[] | undefined;
  #forcedTokens: number[] | undefined;

  constructor(text: GrammarText, state: AutomatonState) {
    this.#text = text;
    this.#state = state;
    this.complete = state.complete;
  }

  get legal(): Int32Array {
    const legal = this.#legal ?? this.#goOn(never);
    if (!legal) throw new Error('the way through all tokens ended early');
    return legal;
  }

  get hasLegal(): boolean {
    this.#hasLegal ??= this.#text.hasLegal(this.#state);
    return this.#hasLegal;
  }

  prepare(isOver: IsOver): boolean {
    return (this.#legal ?? this.#goOn(isOver)) !== null;
  }

  #goOn(isOver: IsOver): Int32Array | null {
    this.#work ??= this.#text.beginLegal(this.#state);
    const legal = this.#text.goOnLegal(this.#work, isOver);
    if (!legal) return null;
    this.#legal = legal;
    this.#work = undefined;
    return legal;
  }

  /** What is remembered holds no other state: only those that the automaton remembers are there for long. */
  get forced(): Forced | null {
    this.#forcedBytes ??= this.#text.forcedBytes(this.#state);
    if (this.#forcedBytes.length === 0) return null;
    this.#forcedTokens ??= this.#text.encode(this.#forcedBytes);
    const after = this.#text.follow(this.#state, this.#forcedBytes);
    return after && { tokens: this.#forcedTokens, after };
  }

  after(token: number): TextState {
    return this.#text.after(this.#state, token);
  }
}
