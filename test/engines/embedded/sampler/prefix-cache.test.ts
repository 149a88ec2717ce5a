import { describe, expect, it } from 'vitest';
import {
  blockLength,
  PrefixCache,
  PrefixMemory,
} from '../../../../src/engines/embedded/sampler/prefix-cache.ts';

const sequence = (length: number, first = 0) => Array.from({ length }, (_, at) => first + at);

describe('the prefix cache', () => {
  const cacheOf = (blocks: number) =>
    new PrefixCache({ blockSize: 4, memory: new PrefixMemory(blocks * 16) });
  /** Adds a sequence; returns where the blocks that had to be copied begin. */
  const add = (cache: PrefixCache, tokens: number[], mark = 1, salt: string | null = null) => {
    const copied: number[] = [];
    cache.add(tokens, salt, (start, target) => {
      copied.push(start);
      target.fill(mark);
    });
    return copied;
  };

  it('finds the whole blocks of the longest known prefix', () => {
    const cache = cacheOf(8);
    add(cache, sequence(40));
    expect(cache.find(sequence(64), null)).toHaveLength(2);
    expect(cache.find([...sequence(20), 999, ...sequence(20)], null)).toHaveLength(1);
    expect(cache.find(sequence(40, 1), null)).toHaveLength(0);
  });

  it('stores a common prefix once', () => {
    const cache = cacheOf(8);
    expect(add(cache, sequence(48))).toEqual([0, 16, 32]);
    expect(add(cache, [...sequence(32), ...sequence(16, 500)])).toEqual([32]);
  });

  it('does not use a block of the same tokens after another prefix', () => {
    const cache = cacheOf(8);
    add(cache, [...sequence(blockLength), ...sequence(blockLength, 100)]);
    expect(cache.find(sequence(blockLength, 100), null)).toHaveLength(0);
  });

  it('drops the least recently used blocks and never returns their new contents', () => {
    const cache = cacheOf(2);
    add(cache, sequence(16), 1);
    add(cache, sequence(16, 100), 2);
    cache.find(sequence(16), null);
    add(cache, sequence(16, 200), 3);
    expect(cache.find(sequence(16, 100), null)).toHaveLength(0);
    expect(cache.find(sequence(16), null)[0]?.[0]).toBe(1);
    expect(cache.find(sequence(16, 200), null)[0]?.[0]).toBe(3);
  });

  it('forgets a sequence from its end, so that what stays can be found', () => {
    const cache = cacheOf(4);
    add(cache, sequence(48));
    add(cache, sequence(32, 100));
    expect(cache.find(sequence(48), null)).toHaveLength(2);
    expect(add(cache, sequence(48))).toEqual([32]);
    expect(cache.find(sequence(32, 100), null)).toHaveLength(1);
  });

  it('keeps the beginning of a sequence that is too long for it', () => {
    const cache = cacheOf(3);
    expect(add(cache, sequence(80))).toEqual([0, 16, 32]);
    expect(cache.find(sequence(80), null)).toHaveLength(3);
    expect(add(cache, sequence(96))).toEqual([]);
  });

  it('finds nothing under another salt, and stores the same tokens once for each', () => {
    const cache = cacheOf(8);
    const salts = [null, 'null', '', '0', 'a', 'b'];
    for (const [mark, salt] of salts.entries()) expect(add(cache, sequence(16), mark, salt)).toEqual([0]);
    for (const [mark, salt] of salts.entries()) expect(cache.find(sequence(16), salt)[0]?.[0]).toBe(mark);
    expect(cache.find(sequence(16), 'c')).toHaveLength(0);
  });

  it('shares its memory with the caches of other weights, but not its blocks', () => {
    const memory = new PrefixMemory(3 * 64);
    const [one, other] = [4, 16].map((blockSize) => new PrefixCache({ blockSize, memory })) as [
      PrefixCache,
      PrefixCache,
    ];
    add(one, sequence(32), 1);
    expect(other.find(sequence(32), null)).toEqual([]);
    for (const first of [0, 100]) add(other, sequence(16, first), 2);
    // Two blocks of 64 bytes and two of 16.
    expect(one.find(sequence(32), null).map(([mark]) => mark)).toEqual([1, 1]);
    add(other, sequence(16, 200), 2);
    expect(other.find(sequence(16), null)).toEqual([]);
    expect(one.find(sequence(32), null)).toHaveLength(2);
    other.clear();
    expect(other.find(sequence(16, 200), null)).toEqual([]);
    expect(one.find(sequence(32), null)).toHaveLength(2);
  });

  it('stores nothing when its limit is 0', () => {
    const cache = cacheOf(0);
    expect(add(cache, sequence(32))).toEqual([]);
    expect(cache.find(sequence(32), null)).toEqual([]);
  });
});
