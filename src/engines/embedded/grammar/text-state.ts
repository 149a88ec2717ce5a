import { EngineError } from '../../engine-error.ts';
import type { Automaton, AutomatonState } from './automaton.ts';
import type { TokenTrie } from './token-trie.ts';

/** A text that is forced without end would otherwise be followed for ever. */
const LONGEST_FORCED_BYTES = 1 << 14;
/** Sets kept to be found again, each of some kilobytes. */
const MAXIMUM_LEGAL_SETS = 2_000;

interface Forced {
  tokens: readonly number[];
  after: TextState;
}

/** A place in a branch's text, seen in tokens: what may come, what must come, where each token leads. */
export interface TextState {
  /** The text may end here. */
  readonly complete: boolean;
  readonly legal: Int32Array;
  /** What must come next, and the state behind it; null where there is a choice. */
  readonly forced: Forced | null;
  /** The state after a legal token. */
  after(token: number): TextState;
}

/** Any text: one state that every token leads back to. */
export class FreeTextState implements TextState {
  readonly complete = true;
  readonly forced = null;
  readonly legal: Int32Array;

  constructor(trie: TokenTrie) {
    this.legal = trie.textTokens;
  }

  after(): TextState {
    return this;
  }
}

/** The token view of an automaton's states. It is computed once a state and goes with it. */
export class GrammarText {
  readonly #automaton: Automaton;
  readonly #trie: TokenTrie;
  readonly #bytesOf: (token: number) => Uint8Array;
  readonly #views = new WeakMap<AutomatonState, TextState>();
  /** Few sets serve many states: the positions in a string of bounded length, for one. */
  readonly #legalSets = new Map<string, Int32Array>();

  constructor(automaton: Automaton, trie: TokenTrie, bytesOf: (token: number) => Uint8Array) {
    this.#automaton = automaton;
    this.#trie = trie;
    this.#bytesOf = bytesOf;
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

  legal(state: AutomatonState): Int32Array {
    this.#automaton.renewEffort();
    const tokens = this.#trie.legalTokens(state);
    const key = String.fromCharCode(...tokens);
    const known = this.#legalSets.get(key);
    if (known) return known;
    if (this.#legalSets.size >= MAXIMUM_LEGAL_SETS) this.#legalSets.clear();
    this.#legalSets.set(key, tokens);
    return tokens;
  }

  forced(state: AutomatonState): Forced | null {
    this.#automaton.renewEffort();
    const bytes: number[] = [];
    let reached = state;
    for (let byte = reached.onlyByte; byte !== null; byte = reached.onlyByte) {
      const next = reached.step(byte);
      if (!next || bytes.length >= LONGEST_FORCED_BYTES)
        throw new EngineError(
          'grammar_endless',
          `the grammar forces more than ${LONGEST_FORCED_BYTES} bytes at once, perhaps without end: give a recursion a way out, such as null`,
        );
      bytes.push(byte);
      reached = next;
    }
    if (bytes.length === 0) return null;
    return { tokens: this.#trie.encodeBytes(bytes), after: this.at(reached) };
  }

  after(state: AutomatonState, token: number): TextState {
    this.#automaton.renewEffort();
    let reached: AutomatonState | null = state;
    for (const byte of this.#bytesOf(token)) reached = reached?.step(byte) ?? null;
    if (!reached) throw new EngineError('illegal_token', `the grammar does not admit token ${token} here`);
    return this.at(reached);
  }
}

class GrammarTextState implements TextState {
  readonly complete: boolean;
  readonly #text: GrammarText;
  readonly #state: AutomatonState;
  readonly #after = new Map<number, TextState>();
  #legal: Int32Array | undefined;
  #forced: Forced | null | undefined;

  constructor(text: GrammarText, state: AutomatonState) {
    this.#text = text;
    this.#state = state;
    this.complete = state.complete;
  }

  get legal(): Int32Array {
    this.#legal ??= this.#text.legal(this.#state);
    return this.#legal;
  }

  get forced(): Forced | null {
    if (this.#forced === undefined) this.#forced = this.#text.forced(this.#state);
    return this.#forced;
  }

  after(token: number): TextState {
    let next = this.#after.get(token);
    if (!next) {
      next = this.#text.after(this.#state, token);
      this.#after.set(token, next);
    }
    return next;
  }
}
