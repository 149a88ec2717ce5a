import { LRUCache } from 'lru-cache';
import { maxRunLength } from './character-run.ts';
import { addTo, bitsFor } from './token-set.ts';
import type { TokenTrie } from './token-trie.ts';

/** Most sets of characters whose tokens are kept: some 0.6 MB each with 150,000 tokens. */
const maxKept = 16;

/** What a vocabulary offers for a text of certain characters only. */
export class RunTokens {
  /** The tokens that consist of these characters, and of at most `maxRunLength`. The last may be cut off. */
  readonly bits: Uint32Array;
  /** The nodes of these tokens, by their number of characters. */
  readonly nodes: Int32Array;
  /** The first of `nodes` with each number of characters. */
  readonly starts: Int32Array;
  /** The nodes where other tokens leave these characters, or exceed `maxRunLength`. */
  readonly exits: Int32Array;

  /** `kinds`: as in `CharacterRun`. */
  constructor({ vocabularySize, ends, tokens, kinds: nodeKinds, characters }: TokenTrie, kinds: Uint8Array) {
    this.bits = bitsFor(vocabularySize);
    this.starts = new Int32Array(maxRunLength + 2);
    const nodes: number[] = [];
    const exits: number[] = [];
    for (let node = 1; node < ends.length; ) {
      const count = characters[node]!;
      if (kinds[nodeKinds[node]!] !== 1 || count > maxRunLength) {
        exits.push(node);
        node = ends[node]!;
        continue;
      }
      if (tokens[node]! >= 0) {
        addTo(this.bits, tokens[node]!);
        nodes.push(node);
        this.starts[count + 1]!++;
      }
      node++;
    }
    for (let count = 1; count < this.starts.length; count++) this.starts[count]! += this.starts[count - 1]!;
    const next = this.starts.slice();
    this.nodes = new Int32Array(nodes.length);
    for (const node of nodes) this.nodes[next[characters[node]!]!++] = node;
    this.exits = Int32Array.from(exits);
  }
}

/** The tokens of runs in one vocabulary. Those used last are kept. */
export class RunTokensCache {
  readonly #trie: TokenTrie;
  readonly #known = new LRUCache<string, RunTokens>({ max: maxKept });

  constructor(trie: TokenTrie) {
    this.#trie = trie;
  }

  of(kinds: Uint8Array): RunTokens {
    const key = Buffer.from(kinds).toString('latin1');
    let tokens = this.#known.get(key);
    if (!tokens) {
      tokens = new RunTokens(this.#trie, kinds);
      this.#known.set(key, tokens);
    }
    return tokens;
  }
}
