import type { AutomatonState } from './automaton-state.ts';
import { CharacterRun, maxRunLength } from './character-run.ts';
import type { RunTokens, RunTokensCache } from './run-tokens.ts';
import { addTo, bitsFor, TokenSet } from './token-set.ts';
import type { TokenTrie } from './token-trie.ts';

/** Whether to stop for now and continue later. */
export type ShouldPause = () => boolean;

/** Fewest nodes below a node for which looking for a run is faster than following each byte. */
const minNodes = 1024;

/**
 * A search for the tokens that a state admits. Leaves out a token that begins a longer one whose remaining bytes are
 * forced: both give the same text, and the longer one is how it is spelled. The search can pause, so that a heavy
 * grammar does not delay other requests.
 */
export class LegalTokenSearch {
  readonly #trie: TokenTrie;
  readonly #runs: RunTokensCache;
  readonly #legal: Uint32Array;
  /** Nodes whose children are still to be visited, and the state at each. */
  readonly #nodes: number[] = [0];
  readonly #states: AutomatonState[];

  constructor({ trie, runs }: { trie: TokenTrie; runs: RunTokensCache }, state: AutomatonState) {
    this.#trie = trie;
    this.#runs = runs;
    this.#states = [state];
    this.#legal = bitsFor(trie.vocabularySize);
  }

  /** Continues until `shouldPause()`. Returns all legal tokens once the search is complete; null before. */
  advance(shouldPause: ShouldPause): TokenSet | null {
    while (this.#nodes.length > 0) {
      if (shouldPause()) return null;
      const node = this.#nodes.pop()!;
      const state = this.#states.pop()!;
      const run = this.#trie.ends[node]! - node > minNodes ? CharacterRun.from(state) : null;
      if (run && node === 0 && (run.states.length > maxRunLength || run.isClosed))
        this.#takeRun(run, this.#runs.of(run.kinds));
      else if (run) this.#followRun(node, run);
      else this.#followBytes(node, state);
    }
    return new TokenSet(this.#legal);
  }

  #followBytes(node: number, state: AutomatonState): void {
    const { ends } = this.#trie;
    const end = ends[node]!;
    for (let child = node + 1; child < end; child = ends[child]!) this.#follow(child, state);
  }

  /** Visits a node. `from`: the state before its byte. */
  #follow(node: number, from: AutomatonState): void {
    const reached = from.step(this.#trie.bytes[node]!);
    if (!reached) return;
    this.#addToken(node, reached);
    if (this.#trie.ends[node]! === node + 1) return;
    this.#nodes.push(node);
    this.#states.push(reached);
  }

  /** Visits the nodes below a node where a run begins, as far as they continue it and one further. */
  #followRun(node: number, { kinds, states }: CharacterRun): void {
    const { ends, tokens, characters, missing } = this.#trie;
    const nodeKinds = this.#trie.kinds;
    const before = characters[node]!;
    const end = ends[node]!;
    const last = states.length - 1;
    for (let at = node + 1; at < end; ) {
      const count = characters[at]! - before;
      if (kinds[nodeKinds[at]!] === 1 && count <= last) {
        // Only after the run's last character may a byte be forced.
        if (count === last && missing[at] === 0) this.#addToken(at, states[count]!);
        else if (tokens[at]! >= 0) addTo(this.#legal, tokens[at]!);
        at++;
      } else {
        this.#follow(at, states[count - 1]!);
        at = ends[at]!;
      }
    }
  }

  /** Does the same for a run that begins at the root. */
  #takeRun({ states, last }: CharacterRun, { bits, nodes, starts, exits }: RunTokens): void {
    const longest = states.length - 1;
    const kept = starts[longest + 1]!;
    if (kept > nodes.length / 2) {
      this.#legal.set(bits);
      this.#flip(nodes.subarray(kept));
    } else this.#flip(nodes.subarray(0, kept));
    if (last.onlyByte !== null)
      for (const node of nodes.subarray(starts[longest], kept))
        if (this.#trie.missing[node] === 0 && this.#hasForcedLongerToken(node, last)) this.#flip([node]);
    for (const node of exits) {
      const count = this.#trie.characters[node]!;
      if (count <= states.length) this.#follow(node, states[count - 1]!);
    }
  }

  /** Adds the tokens at these nodes, or removes those that are in the set. */
  #flip(nodes: Iterable<number>): void {
    for (const node of nodes) {
      const token = this.#trie.tokens[node]!;
      this.#legal[token >> 5]! ^= 1 << (token & 31);
    }
  }

  #addToken(node: number, reached: AutomatonState): void {
    const token = this.#trie.tokens[node]!;
    if (token >= 0 && !this.#hasForcedLongerToken(node, reached)) addTo(this.#legal, token);
  }

  #hasForcedLongerToken(node: number, state: AutomatonState): boolean {
    let longer = node;
    let reached: AutomatonState | null = state;
    for (let byte = state.onlyByte; byte !== null; byte = reached?.onlyByte ?? null) {
      longer = this.#trie.child(longer, byte);
      if (longer < 0) return false;
      reached = reached?.step(byte) ?? null;
      if (reached && this.#trie.tokens[longer]! >= 0) return true;
    }
    return false;
  }
}

/** Whether a state admits any token. One byte is enough, since every byte that a grammar may write is a token. */
export function hasLegalToken({ bytes, ends }: TokenTrie, state: AutomatonState): boolean {
  for (let child = 1; child < bytes.length; child = ends[child]!) if (state.step(bytes[child]!)) return true;
  return false;
}
