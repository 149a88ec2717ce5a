import { expect, it } from 'vitest';
import { BaseModels } from '../../../../../src/engines/embedded/base-models.ts';
import { KeyValueCache } from '../../../../../src/engines/embedded/sampler/padded/key-value-cache.ts';

const { architecture } = new BaseModels([]).find('martingale-tiny');
const memoryOf = (cache: KeyValueCache) =>
  Array.from(
    { length: architecture.layers },
    (_, layer) => cache.tensors(layer, 0, 1).key.buffer as ArrayBuffer,
  );

it('takes the memory of a cleared cache, and grows in it', () => {
  const first = new KeyValueCache(architecture);
  first.reserve(64, 96, 0);
  const memory = memoryOf(first);
  first.clear();
  const second = new KeyValueCache(architecture);
  second.reserve(8, 32, 0);
  const [taken] = memoryOf(second);
  second.write(0, 7, 31, new Float32Array(3 * architecture.width).fill(5), 0);
  second.reserve(64, 96, 8);
  expect(memoryOf(second)[0]).toBe(taken);
  expect([...second.tensors(0, 7, 1).key].filter((value) => value === 5)).toHaveLength(architecture.width);
  expect(memory.some(({ detached }) => detached)).toBe(false);
});

it('shows nothing of the cache whose memory it takes, however it grows', () => {
  const first = new KeyValueCache(architecture);
  first.reserve(64, 96, 0);
  for (let layer = 0; layer < architecture.layers; layer++) {
    const { key, value } = first.tensors(layer, 0, 64);
    key.fill(Number.NaN);
    value.fill(Number.NaN);
  }
  first.clear();
  const second = new KeyValueCache(architecture);
  for (const [slots, width] of [
    [8, 32],
    [8, 96],
    [16, 64],
    [64, 96],
  ] as const) {
    second.reserve(slots, width, 8);
    for (let layer = 0; layer < architecture.layers; layer++) {
      const { key, value } = second.tensors(layer, 0, slots);
      expect([...key, ...value].every((element) => element === 0)).toBe(true);
    }
  }
});

it('keeps at most 64 MiB of cleared caches', () => {
  const large = new KeyValueCache(architecture);
  large.reserve(512, 512, 0);
  const memory = memoryOf(large);
  large.clear();
  expect(memory.every(({ detached }) => detached)).toBe(true);
});
