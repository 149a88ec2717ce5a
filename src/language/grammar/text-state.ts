import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import type { Automaton } from './automaton.ts';
import type { AutomatonState } from './automaton-state.ts';
import { hasLegalToken, LegalTokenSearch, type ShouldPause } from './legal-search.ts';
import type { RunTokensCache } from './run-tokens.ts';
import type { LegalSets, TokenSet } from './token-set.ts';
import type { TokenTrie } from './token-trie.ts';

/** Most bytes of forced text, which may be endless. */
const maxForcedBytes = 1 << 14;
/** Most nodes visited for forced text: some 20 milliseconds, during which no other request is sampled. */
const maxForcedVisits = 50_000;
/** Memory of one position of a state. */
const BYTES_OF_A_POSITION = 64;

/** Tokens that must come next, and the state after them. */
interface Forced {
  tokens: readonly number[];
  after: TextState;
}

/** A state of a branch's text in terms of tokens: which are legal, which are forced, and where each leads. */
export interface TextState {
  /** Whether the text may end here. */
  readonly complete: boolean;
  /** Whether this is a position in free text, which is tokenized as usual. */
  readonly freeText: boolean;
  readonly legal: TokenSet;
  /** Whether any token is legal. */
  readonly hasLegal: boolean;
  /** Computes `legal` until `shouldPause()`; returns true once it is ready. */
  prepare(shouldPause: ShouldPause): boolean;
  /** Null if there is a choice. */
  readonly forced: Forced | null;
  /** The state after a legal token. */
  after(token: number): TextState;
}

/** Any text: one state, to which every token returns. */
export class FreeTextState implements TextState {
  readonly complete = true;
  readonly freeText = true;
  readonly forced = null;
  readonly hasLegal = true;
  readonly legal: TokenSet;

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

/** The tokens of a model as grammars need them. */
export interface Vocabulary {
  trie: TokenTrie;
  runs: RunTokensCache;
  sets: LegalSets;
  bytesOf: (token: number) => Uint8Array;
}

/** The states of an automaton in terms of tokens. Each view is created once, and released with its state. */
export class GrammarText {
  readonly automaton: Automaton;
  readonly vocabulary: Vocabulary;
  /** Whether text of the grammar is free wherever it may end. */
  readonly isFree: boolean;
  readonly #views = new WeakMap<AutomatonState, TextState>();

  constructor(automaton: Automaton, vocabulary: Vocabulary, { isFree }: { isFree: boolean }) {
    this.automaton = automaton;
    this.vocabulary = vocabulary;
    this.isFree = isFree;
  }

  get start(): TextState {
    return this.at(this.automaton.start);
  }

  at(state: AutomatonState): TextState {
    const { relaxed } = state;
    const view = getOrInsert(this.#views, relaxed, () => new GrammarTextState(this, relaxed));
    if (relaxed === state) return view;
    return getOrInsert(this.#views, state, () => new RememberingTextState(this, state, view));
  }

  /** The state after some bytes; null if the grammar does not admit them. */
  follow(state: AutomatonState, bytes: Iterable<number>): TextState | null {
    this.automaton.visits.startTask();
    let reached: AutomatonState | null = state;
    for (const byte of bytes) reached = reached?.step(byte) ?? null;
    return reached && this.at(reached);
  }
}

const neverPause = () => false;

class GrammarTextState implements TextState {
  readonly complete: boolean;
  readonly #text: GrammarText;
  readonly #state: AutomatonState;
  /** The unfinished search for legal tokens, and the nodes it has visited so far. */
  #work: { search: LegalTokenSearch; visits: number } | undefined;
  #legal: TokenSet | undefined;
  #hasLegal: boolean | undefined;
  #forcedBytes: number[] | undefined;
  #forcedTokens: number[] | undefined;

  constructor(text: GrammarText, state: AutomatonState) {
    this.#text = text;
    this.#state = state;
    this.complete = state.complete;
  }

  get freeText(): boolean {
    return this.complete && this.#text.isFree;
  }

  get legal(): TokenSet {
    const legal = this.#legal ?? this.#findLegal(neverPause);
    if (!legal) throw new Error('the search through all tokens ended early');
    return legal;
  }

  get hasLegal(): boolean {
    if (this.#hasLegal === undefined) {
      this.#text.automaton.visits.startTask();
      this.#hasLegal = hasLegalToken(this.#text.vocabulary.trie, this.#state);
    }
    return this.#hasLegal;
  }

  prepare(shouldPause: ShouldPause): boolean {
    return (this.#legal ?? this.#findLegal(shouldPause)) !== null;
  }

  #findLegal(shouldPause: ShouldPause): TokenSet | null {
    const { automaton, vocabulary } = this.#text;
    const work = this.#work ?? { search: new LegalTokenSearch(vocabulary, this.#state), visits: 0 };
    this.#work = work;
    automaton.visits.startTask({ spent: work.visits });
    try {
      const tokens = work.search.advance(shouldPause);
      if (!tokens) return null;
      // Many states share few sets, such as the positions in a string of bounded length.
      const legal = vocabulary.sets.find(tokens);
      if (legal === tokens) automaton.countMemory(Math.ceil(tokens.bytes / BYTES_OF_A_POSITION));
      this.#legal = legal;
      this.#work = undefined;
      return legal;
    } finally {
      work.visits = automaton.visits.count;
    }
  }

  /** Caches only bytes and tokens, not the state after them: the automaton decides which states to keep. */
  get forced(): Forced | null {
    this.#forcedBytes ??= this.#findForcedBytes();
    if (this.#forcedBytes.length === 0) return null;
    this.#forcedTokens ??= this.#text.vocabulary.trie.encodeBytes(this.#forcedBytes);
    const after = this.#text.follow(this.#state, this.#forcedBytes);
    return after && { tokens: this.#forcedTokens, after };
  }

  #findForcedBytes(): number[] {
    this.#text.automaton.visits.startTask({ limit: maxForcedVisits });
    const bytes: number[] = [];
    let reached = this.#state;
    for (let byte = reached.onlyByte; byte !== null; byte = reached.onlyByte) {
      const next = reached.step(byte);
      if (!next || bytes.length >= maxForcedBytes)
        throw new LanguageError(
          'grammar_endless',
          `The grammar forces more than ${maxForcedBytes} bytes at once, and may be endless. Give each recursion a way to end, such as null.`,
        );
      bytes.push(byte);
      reached = next;
    }
    // A tag that may go on is a token, which the bytes that it shares with others would exclude.
    const end = reached;
    const mayGoOn = (rest: Iterable<number>) => {
      let state: AutomatonState | null = end;
      for (const byte of rest) state = state?.step(byte) ?? null;
      return state !== null;
    };
    const { trie } = this.#text.vocabulary;
    const begun = trie.begunTags(bytes).find(({ rest }) => mayGoOn(rest));
    return begun ? bytes.slice(0, -begun.length) : bytes;
  }

  after(token: number): TextState {
    const reached = this.#text.follow(this.#state, this.#text.vocabulary.bytesOf(token));
    if (!reached) throw new LanguageError('illegal_token', `The grammar does not allow token ${token} here.`);
    return reached;
  }
}

/** A state of a text whose items must differ. Its tokens come from the relaxed state, which many such texts share. */
class RememberingTextState implements TextState {
  readonly complete: boolean;
  readonly #text: GrammarText;
  readonly #state: AutomatonState;
  readonly #relaxed: TextState;

  constructor(text: GrammarText, state: AutomatonState, relaxed: TextState) {
    this.#text = text;
    this.#state = state;
    this.#relaxed = relaxed;
    this.complete = state.complete;
  }

  get freeText(): boolean {
    return this.#relaxed.freeText;
  }

  get legal(): TokenSet {
    return this.#relaxed.legal;
  }

  get hasLegal(): boolean {
    return this.#relaxed.hasLegal;
  }

  prepare(shouldPause: ShouldPause): boolean {
    return this.#relaxed.prepare(shouldPause);
  }

  get forced(): Forced | null {
    const { forced } = this.#relaxed;
    return forced && { tokens: forced.tokens, after: this.#following(forced.tokens) };
  }

  after(token: number): TextState {
    return this.#following([token]);
  }

  #following(tokens: readonly number[]): TextState {
    const reached = this.#text.follow(
      this.#state,
      tokens.flatMap((token) => [...this.#text.vocabulary.bytesOf(token)]),
    );
    if (!reached)
      throw new LanguageError('illegal_token', `The grammar does not allow token ${tokens.join()} here.`);
    return reached;
  }
}
