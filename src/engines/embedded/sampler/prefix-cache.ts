import type { KeyValueSnapshot } from './key-value-cache.ts';

export interface CachedPrefix {
  tokens: readonly number[];
  snapshot: KeyValueSnapshot;
}

/** Prefixes are looked up by whole blocks of this many tokens. */
const blockLength = 16;

/**
 * Keys and values of sequences that have ended, so that the next turn of a conversation need not compute them
 * again. Least recently used ones go when the limit is reached.
 */
export class PrefixCache {
  readonly #limitBytes: number;
  #bytes = 0;
  /** In order of last use. */
  readonly #entries = new Map<CachedPrefix, string[]>();
  readonly #byBlocks = new Map<string, CachedPrefix>();

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** The entry that shares the most tokens with the prompt, and how many. */
  find(prompt: readonly number[]): { entry: CachedPrefix; length: number } | undefined {
    const keys = blockKeys(prompt);
    for (let index = keys.length - 1; index >= 0; index--) {
      const entry = this.#byBlocks.get(keys[index] as string);
      if (!entry) continue;
      const length = sharedLength(entry.tokens, prompt);
      if (length < (index + 1) * blockLength) continue;
      const own = this.#entries.get(entry) as string[];
      this.#entries.delete(entry);
      this.#entries.set(entry, own);
      return { entry, length };
    }
    return undefined;
  }

  add(entry: CachedPrefix): void {
    const keys = blockKeys(entry.tokens);
    if (keys.length === 0 || entry.snapshot.byteLength > this.#limitBytes) return;
    this.#entries.set(entry, keys);
    this.#bytes += entry.snapshot.byteLength;
    for (const key of keys) this.#byBlocks.set(key, entry);
    for (const [oldest, oldKeys] of this.#entries) {
      if (this.#bytes <= this.#limitBytes) break;
      this.#entries.delete(oldest);
      this.#bytes -= oldest.snapshot.byteLength;
      for (const key of oldKeys) if (this.#byBlocks.get(key) === oldest) this.#byBlocks.delete(key);
    }
  }
}

/** A key for each whole block of a sequence, naming everything up to the block's end. */
function blockKeys(tokens: readonly number[]): string[] {
  const keys: string[] = [];
  let low = 0x811c9dc5;
  let high = 0x1b873593;
  for (let index = 0; index < tokens.length; index++) {
    low = Math.imul(low ^ (tokens[index] as number), 0x01000193);
    high = Math.imul(high ^ (tokens[index] as number), 0x85ebca6b) ^ (high >>> 13);
    if ((index + 1) % blockLength === 0) keys.push(`${index + 1}:${low}:${high}`);
  }
  return keys;
}

export function sharedLength(left: readonly number[], right: readonly number[]): number {
  const limit = Math.min(left.length, right.length);
  let length = 0;
  while (length < limit && left[length] === right[length]) length++;
  return length;
}
