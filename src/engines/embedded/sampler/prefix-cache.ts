import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/** Keys and values of a whole block of tokens, packed: [layer][key, value][head][token][head width]. */
export type KeyValueBlock = Float32Array;

/** Sequences are kept in blocks of this many tokens: prefixes are shared by whole blocks. */
export const blockLength = 16;

interface Entry {
  id: number;
  data: KeyValueBlock;
}

/**
 * Keys and values of sequences that have ended, so that the next turn of a conversation, or another with the same
 * beginning, need not compute them again. A block is named by its tokens and by the block before it, the first by the
 * salt of its sequence, so that what sequences of one salt have in common is kept once and nothing is found under
 * another salt. The blocks used longest ago go when the limit is reached.
 */
export class PrefixCache {
  readonly #blockSize: number;
  readonly #blocks: LRUCache<string, Entry> | undefined;
  /** Memory of blocks that went: fresh memory costs more than the copy into it. */
  readonly #free: KeyValueBlock[] = [];
  #ids = 0;

  /** `blockSize`: numbers in a block; `limitBytes`: of all blocks together, and 0 keeps nothing. */
  constructor({ blockSize, limitBytes }: { blockSize: number; limitBytes: number }) {
    this.#blockSize = blockSize;
    const max = Math.floor(limitBytes / (blockSize * Float32Array.BYTES_PER_ELEMENT));
    if (max > 0) this.#blocks = new LRUCache({ max, dispose: ({ data }) => this.#free.push(data) });
  }

  /** The blocks of the longest prefix that is known under the salt. */
  find(tokens: readonly number[], salt: string | null): KeyValueBlock[] {
    const found: KeyValueBlock[] = [];
    let parent = root(salt);
    for (let start = 0; start + blockLength <= tokens.length; start += blockLength) {
      const entry = this.#blocks?.get(blockKey(parent, tokens, start));
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
    if (!this.#blocks) return;
    let parent = root(salt);
    for (let start = 0; start + blockLength <= tokens.length; start += blockLength) {
      const key = blockKey(parent, tokens, start);
      let entry = this.#blocks.get(key);
      if (!entry) {
        entry = { id: ++this.#ids, data: this.#free.pop() ?? new Float32Array(this.#blockSize) };
        copy(start, entry.data);
        this.#blocks.set(key, entry);
      }
      parent = entry.id;
    }
  }
}

/** What stands for the block before the first: no block's number, another for each salt, and short. */
function root(salt: string | null): number | string {
  return salt === null ? 0 : `salt ${createHash('sha256').update(salt).digest('base64')}`;
}

function blockKey(parent: number | string, tokens: readonly number[], start: number): string {
  return `${parent}:${tokens.slice(start, start + blockLength).join()}`;
}
