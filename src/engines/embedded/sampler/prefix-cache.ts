import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** Keys and values of a whole block of tokens, packed: [layer][key, value][head][token][head width]. */
export type KeyValueBlock = Float32Array;

/** Sequences are kept in blocks of this many tokens: prefixes are shared by whole blocks. */
export const blockLength = 16;

let caches = 0;

interface Entry {
  id: number;
  data: KeyValueBlock;
  cache: PrefixCache;
}

/** Blocks whose memory is kept for further ones: fresh memory costs more than the copy into it. */
const sparesKept = 8;

/** The memory that the prefix caches of all weights share. The blocks used longest ago go when the limit is reached. */
export class PrefixMemory {
  readonly #blocks: LRUCache<string, Entry> | undefined;
  readonly #spares: KeyValueBlock[] = [];
  #ids = 0;

  /** `limitBytes`: of all blocks together, and 0 keeps nothing. */
  constructor(limitBytes: number) {
    if (limitBytes > 0)
      this.#blocks = new LRUCache({
        maxSize: limitBytes,
        sizeCalculation: ({ data }) => data.byteLength,
        dispose: ({ data }) => {
          if (this.#spares.length < sparesKept) this.#spares.push(data);
        },
      });
  }

  get(key: string): Entry | undefined {
    return this.#blocks?.get(key);
  }

  /** Makes a block of so many numbers, which `fill` fills; undefined where nothing is kept. */
  add(cache: PrefixCache, key: string, size: number, fill: (data: KeyValueBlock) => void): Entry | undefined {
    if (!this.#blocks) return undefined;
    const spare = this.#spares.findIndex(({ length }) => length === size);
    const [data = new Float32Array(size)] = spare < 0 ? [] : this.#spares.splice(spare, 1);
    fill(data);
    const entry = { id: ++this.#ids, data, cache };
    this.#blocks.set(key, entry);
    return entry;
  }

  /** Lets go of the blocks of one cache. */
  drop(cache: PrefixCache): void {
    for (const [key, entry] of this.#blocks?.entries() ?? [])
      if (entry.cache === cache) this.#blocks?.delete(key);
  }
}

/**
 * Keys and values of sequences that have ended, of one set of weights, so that the next turn of a conversation, or
 * another with the same beginning, need not compute them again. A block is named by its tokens and by the block before
 * it, the first by the salt of its sequence, so that what sequences of one salt have in common is kept once and nothing
 * is found under another salt.
 */
export class PrefixCache {
  readonly #blockSize: number;
  readonly #memory: PrefixMemory;
  readonly #name = `weights ${++caches}`;

  /** `blockSize`: numbers in a block. */
  constructor({ blockSize, memory }: { blockSize: number; memory: PrefixMemory }) {
    this.#blockSize = blockSize;
    this.#memory = memory;
  }

  /** The blocks of the longest prefix that is known under the salt. */
  find(tokens: readonly number[], salt: string | null): KeyValueBlock[] {
    const found: KeyValueBlock[] = [];
    let parent: number | string = this.#root(salt);
    for (let start = 0; start + blockLength <= tokens.length; start += blockLength) {
      const entry = this.#memory.get(blockKey(parent, tokens, start));
      if (!entry) break;
      found.push(entry.data);
      parent = entry.id;
    }
    return found;
  }

  /** Keeps the whole blocks of a sequence; `copy` fills those that are new, each from its first token on. */
  add(
    tokens: readonly number[],
    salt: string | null,
    copy: (start: number, target: KeyValueBlock) => void,
  ): void {
    let parent: number | string = this.#root(salt);
    for (let start = 0; start + blockLength <= tokens.length; start += blockLength) {
      const key = blockKey(parent, tokens, start);
      const entry =
        this.#memory.get(key) ??
        this.#memory.add(this, key, this.#blockSize, (target) => copy(start, target));
      if (!entry) return;
      parent = entry.id;
    }
  }

  /** Lets go of everything. */
  clear(): void {
    this.#memory.drop(this);
  }

  /** What stands for the block before the first: no block's number, another for each salt, and short. */
  #root(salt: string | null): string {
    return salt === null
      ? this.#name
      : `${this.#name} salt ${createHash('sha256').update(salt).digest('base64')}`;
  }
}

function blockKey(parent: number | string, tokens: readonly number[], start: number): string {
  return `${parent}:${tokens.slice(start, start + blockLength).join()}`;
}
