import crypto from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { getOrInsert } from '../../util/get-or-insert.ts';

/** Most ids that are kept as a list. Above it, bits are smaller: 19 KB for any set of 150,000 tokens. */
const maxListed = 4096;

export class TokenSet {
  readonly size: number;
  /** The ids, ascending; or bits, where id `t` is bit `t % 32` of number `t >> 5`. */
  readonly #content: Int32Array | Uint32Array;
  /** The ids of a set that is kept as bits, until the garbage collector wants their memory. */
  #listed: WeakRef<Int32Array> | undefined;

  /** `bits`: id `t` is bit `t % 32` of number `t >> 5`. Do not change the array afterwards. */
  constructor(bits: Uint32Array) {
    this.size = countBits(bits);
    this.#content = this.size > maxListed ? bits : listOf(bits, this.size);
  }

  static of(ids: Int32Array): TokenSet {
    return new TokenSet(bitsOf(ids));
  }

  /** The ids, ascending. Do not change the array. */
  get ids(): Int32Array {
    if (this.#content instanceof Int32Array) return this.#content;
    let list = this.#listed?.deref();
    if (!list) {
      list = listOf(this.#content, this.size);
      this.#listed = new WeakRef(list);
    }
    return list;
  }

  get bytes(): number {
    return this.#content.byteLength;
  }

  /** Sets with the same key are equal. */
  get key(): string {
    const { buffer, byteOffset, byteLength } = this.#content;
    const content = new Uint8Array(buffer, byteOffset, byteLength);
    // No list has this length, since the length of each is a multiple of 4.
    if (this.#content instanceof Uint32Array) return `#${crypto.hash('sha256', content, 'hex')}`;
    return Buffer.from(buffer, byteOffset, byteLength).toString('latin1');
  }

  has(id: number): boolean {
    const content = this.#content;
    if (content instanceof Uint32Array) return ((content[id >> 5] ?? 0) & (1 << (id & 31))) !== 0;
    let low = 0;
    let high = content.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (content[middle]! < id) low = middle + 1;
      else high = middle;
    }
    return content[low] === id;
  }

  with(ids: Int32Array): TokenSet {
    const own = this.#content instanceof Int32Array ? bitsOf(this.#content) : this.#content;
    const added = bitsOf(ids);
    const [long, short] = own.length > added.length ? [own, added] : [added, own];
    const bits = long.slice();
    for (let index = 0; index < short.length; index++) bits[index]! |= short[index]!;
    return new TokenSet(bits);
  }
}

/** Bits for the ids below `count`. */
export const bitsFor = (count: number): Uint32Array<ArrayBuffer> => new Uint32Array((count + 31) >> 5);

export function addTo(bits: Uint32Array, id: number): void {
  bits[id >> 5]! |= 1 << (id & 31);
}

function bitsOf(ids: Int32Array): Uint32Array {
  const bits = bitsFor(ids.reduce((most, id) => Math.max(most, id + 1), 0));
  for (const id of ids) addTo(bits, id);
  return bits;
}

function countBits(bits: Uint32Array): number {
  let count = 0;
  for (const word of bits) {
    let rest = word - ((word >>> 1) & 0x55555555);
    rest = (rest & 0x33333333) + ((rest >>> 2) & 0x33333333);
    count += Math.imul((rest + (rest >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return count;
}

function listOf(bits: Uint32Array, size: number): Int32Array {
  const list = new Int32Array(size);
  let count = 0;
  for (let index = 0; index < bits.length; index++)
    for (let word = bits[index]!; word !== 0; word &= word - 1)
      list[count++] = (index << 5) + 31 - Math.clz32(word & -word);
  return list;
}

/** Most bytes of all cached sets together. */
const maxBytes = 2 ** 24;

/** Sets of legal tokens, which recur within a grammar and between grammars. */
export class LegalSets {
  readonly #sets = new LRUCache<string, TokenSet>({
    maxSize: maxBytes,
    sizeCalculation: ({ bytes }, key) => bytes + key.length + 1,
  });

  /** The cached set that equals this one. If there is none, caches and returns this one. */
  find(tokens: TokenSet): TokenSet {
    return getOrInsert(this.#sets, tokens.key, () => tokens);
  }
}
