import { LRUCache } from 'lru-cache';
import { getOrInsert } from '../../util/get-or-insert.ts';
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

  /** `kinds`: as in `CharacterRun`. `scratch`: at least one number for each node. */
  constructor(
    { vocabularySize, ends, tokens, kinds: nodeKinds, characters }: TokenTrie,
    kinds: Uint8Array,
    scratch: Int32Array,
  ) {
    const bits = bitsFor(vocabularySize);
    const starts = new Int32Array(maxRunLength + 2);
    // Nodes of tokens from the front and exits from the back: a node is at most one of both.
    let found = 0;
    let exit = scratch.length;
    for (let node = 1; node < ends.length; ) {
      const count = characters[node]!;
      if (kinds[nodeKinds[node]!] !== 1 || count > maxRunLength) {
        scratch[--exit] = node;
        node = ends[node]!;
        continue;
      }
      const token = tokens[node]!;
      if (token >= 0) {
        addTo(bits, token);
        scratch[found++] = node;
        starts[count + 1]!++;
      }
      node++;
    }
    for (let count = 1; count < starts.length; count++) starts[count]! += starts[count - 1]!;
    const next = starts.slice();
    const nodes = new Int32Array(found);
    for (let index = 0; index < found; index++) {
      const node = scratch[index]!;
      nodes[next[characters[node]!]!++] = node;
    }
    this.bits = bits;
    this.starts = starts;
    this.nodes = nodes;
    this.exits = scratch.slice(exit);
  }
}

/** Caches the tokens of the runs that were used last, for one vocabulary. */
export class RunTokensCache {
  readonly #trie: TokenTrie;
  readonly #known = new LRUCache<string, RunTokens>({ max: maxKept });
  readonly #scratch: Int32Array;

  constructor(trie: TokenTrie) {
    this.#trie = trie;
    this.#scratch = new Int32Array(trie.ends.length);
  }

  of(kinds: Uint8Array): RunTokens {
    const key = Buffer.from(kinds).toString('latin1');
    return getOrInsert(this.#known, key, () => new RunTokens(this.#trie, kinds, this.#scratch));
  }
}
