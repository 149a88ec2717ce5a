import { LRUCache } from 'lru-cache';

/** Token ids of all sets together: some ten megabytes. */
const MAXIMUM_TOKENS = 2 ** 22;

/** Sets of legal tokens that may be found again, in the same grammar or in another. */
export class LegalSets {
  readonly #sets = new LRUCache<string, Int32Array>({
    maxSize: MAXIMUM_TOKENS,
    sizeCalculation: ({ length }) => length + 1,
  });

  /** The set that is known to be equal to this one, or this one, which is known from now on. */
  find(tokens: Int32Array): Int32Array {
    const key = Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength).toString('latin1');
    const known = this.#sets.get(key);
    if (known) return known;
    this.#sets.set(key, tokens);
    return tokens;
  }
}
