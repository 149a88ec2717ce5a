import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { freeAll } from '../runtime.ts';

/** Keys and values of a block of tokens, packed as the decoder's cache does. */
export type KeyValueBlock = Float32Array;

/** Tokens in a block. Only whole blocks of a prefix are shared. */
export const blockLength = 16;

let caches = 0;

interface Entry {
  id: number;
  data: KeyValueBlock;
  cache: PrefixCache;
}

/**
 * Most bytes of freed blocks that are kept for new ones: those that a policy fills in a step or two. Allocating costs more
 * than copying, and the memory of new arrays makes V8 collect garbage.
 */
const mostSpareBytes = 16 * 1024 ** 2;

/** The memory that the prefix caches of all weights share. At its limit the least recently used blocks are dropped. */
export class PrefixMemory {
  readonly #limitBytes: number;
  readonly #blocks: LRUCache<string, Entry> | undefined;
  readonly #spares: KeyValueBlock[] = [];
  #spareBytes = 0;
  #ids = 0;

  /** `limitBytes`: for all blocks together; 0 keeps nothing. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
    if (limitBytes > 0)
      this.#blocks = new LRUCache({
        maxSize: limitBytes,
        sizeCalculation: ({ data }) => data.byteLength,
        dispose: ({ data }) => {
          if (this.#spareBytes + data.byteLength > mostSpareBytes) return freeAll([data]);
          this.#spareBytes += data.byteLength;
          this.#spares.push(data);
        },
      });
  }

  /** Most blocks of `size` elements that it holds. */
  capacity(size: number): number {
    return Math.floor(this.#limitBytes / (size * Float32Array.BYTES_PER_ELEMENT));
  }

  get(key: string): Entry | undefined {
    return this.#blocks?.get(key);
  }

  /** Counts the blocks of a sequence as used, the first one last: without it the others cannot be found. */
  touch(keys: readonly string[]): void {
    for (const key of keys.toReversed()) this.#blocks?.get(key);
  }

  /** Adds a block of `size` elements, which `fill` fills. */
  add(cache: PrefixCache, key: string, size: number, fill: (data: KeyValueBlock) => void): Entry {
    const spare = this.#spares.findIndex(({ length }) => length === size);
    const [data = new Float32Array(size)] = spare < 0 ? [] : this.#spares.splice(spare, 1);
    if (spare >= 0) this.#spareBytes -= data.byteLength;
    fill(data);
    const entry = { id: ++this.#ids, data, cache };
    this.#blocks?.set(key, entry);
    return entry;
  }

  drop(cache: PrefixCache): void {
    for (const [key, entry] of this.#blocks?.entries() ?? [])
      if (entry.cache === cache) this.#blocks?.delete(key);
  }
}

/**
 * Keys and values of ended sequences, for one set of weights, so that a later prompt with the same beginning, such as
 * the next turn of the conversation, need not compute them again. The key of a block is its tokens and the id of the
 * block before it, or the salt for the first block. So a common prefix is stored once for each salt, and nothing is
 * found under another salt.
 */
export class PrefixCache {
  readonly #blockSize: number;
  readonly #memory: PrefixMemory;
  readonly #name = `weights ${++caches}`;

  /** `blockSize`: number of elements in a block. */
  constructor({ blockSize, memory }: { blockSize: number; memory: PrefixMemory }) {
    this.#blockSize = blockSize;
    this.#memory = memory;
  }

  /** The blocks of the longest prefix that is stored under the salt. */
  find(tokens: readonly number[], salt: string | null): KeyValueBlock[] {
    const found: KeyValueBlock[] = [];
    const keys: string[] = [];
    let parent: number | string = this.#root(salt);
    for (let start = 0; start + blockLength <= tokens.length; start += blockLength) {
      const key = blockKey(parent, tokens, start);
      const entry = this.#memory.get(key);
      if (!entry) break;
      found.push(entry.data);
      keys.push(key);
      parent = entry.id;
    }
    this.#memory.touch(keys);
    return found;
  }

  /** Stores the whole blocks of a sequence, as many as there is memory for; `copy` fills each new block, given its first position. */
  add(
    tokens: readonly number[],
    salt: string | null,
    copy: (start: number, target: KeyValueBlock) => void,
  ): void {
    const keys: string[] = [];
    let parent: number | string = this.#root(salt);
    const end = Math.min(tokens.length, blockLength * this.#memory.capacity(this.#blockSize));
    for (let start = 0; start + blockLength <= end; start += blockLength) {
      const key = blockKey(parent, tokens, start);
      const entry =
        this.#memory.get(key) ??
        this.#memory.add(this, key, this.#blockSize, (target) => copy(start, target));
      keys.push(key);
      parent = entry.id;
    }
    this.#memory.touch(keys);
  }

  /** Drops all blocks of these weights. */
  clear(): void {
    this.#memory.drop(this);
  }

  /** The parent of the first block: short, different from every block's id, and different for each salt. */
  #root(salt: string | null): string {
    return salt === null
      ? this.#name
      : `${this.#name} salt ${createHash('sha256').update(salt).digest('base64')}`;
  }
}

function blockKey(parent: number | string, tokens: readonly number[], start: number): string {
  return `${parent}:${tokens.slice(start, start + blockLength).join()}`;
}
