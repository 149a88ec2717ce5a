import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../../../../src/engines/embedded/random.ts';
import {
  type AttentionShape,
  cacheBytes,
  writeAttention,
  writeStore,
} from '../../../../../src/engines/embedded/sampler/flat/attention.ts';
import { WasmModule } from '../../../../../src/engines/embedded/wasm/wasm-module.ts';

const packedAt = 0;
const outputAt = 16_384;
const scoresAt = 32_768;
const cacheAt = 65_536;

/** The attention of the last of some tokens, whose queries, keys and values are side by side, in float64. */
function exactly(
  tokens: readonly Float32Array[],
  { heads, keyValueHeads, headWidth }: AttentionShape,
): number[] {
  const width = heads * headWidth;
  const keyWidth = keyValueHeads * headWidth;
  const last = tokens.at(-1) as Float32Array;
  return Array.from({ length: width }, (_, channel) => {
    const head = Math.floor(channel / headWidth);
    const shared = Math.floor((head * keyValueHeads) / heads) * headWidth;
    const scores = tokens.map((token) => {
      let sum = 0;
      for (let at = 0; at < headWidth; at++)
        sum += (last[head * headWidth + at] as number) * (token[width + shared + at] as number);
      return sum / Math.sqrt(headWidth);
    });
    const largest = Math.max(...scores);
    const weights = scores.map((score) => Math.exp(score - largest));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return tokens.reduce(
      (sum, token, index) =>
        sum +
        ((weights[index] as number) / total) *
          (token[width + keyWidth + shared + (channel % headWidth)] as number),
      0,
    );
  });
}

describe.each([true, false])('attention in WebAssembly, with relaxed SIMD: %s', (relaxedSimd) => {
  it('is that of float64 for any number of heads, of heads that share keys, and of tokens, and reads nothing of later tokens', () => {
    const shapes = fc.record({
      keyValueHeads: fc.integer({ min: 1, max: 6 }),
      sharers: fc.constantFrom(1, 2, 3, 4, 7),
      headWidth: fc.constantFrom(4, 16, 20, 32, 64),
      length: fc.integer({ min: 1, max: 70 }),
      seed: fc.nat(),
    });
    fc.assert(
      fc.property(shapes, ({ keyValueHeads, sharers, headWidth, length, seed }) => {
        const heads = keyValueHeads * sharers;
        const shape = { heads, keyValueHeads, headWidth, contextLength: 70 };
        const module = new WasmModule({ relaxedSimd });
        module.add('store', ['packed', 'cache', 'position'], (code, given) => writeStore(code, shape, given));
        module.add('mix', ['query', 'cache', 'position', 'scores', 'output'], (code, given) =>
          writeAttention(code, shape, given),
        );
        const memory = new WebAssembly.Memory({
          initial: Math.ceil((cacheAt + 2 * cacheBytes(shape)) / 65_536),
        });
        const { store, mix } = new WebAssembly.Instance(new WebAssembly.Module(module.finish()), {
          environment: { memory },
        }).exports as Record<string, (...given: number[]) => void>;
        const numbers = new Float32Array(memory.buffer);
        numbers.fill(Number.NaN);
        const random = new Random(seed);
        const width = (heads + 2 * keyValueHeads) * headWidth;
        const tokens = Array.from({ length }, () =>
          Float32Array.from({ length: width }, () => random.normal()),
        );
        for (const [position, token] of tokens.entries()) {
          numbers.set(token, packedAt / 4);
          store?.(packedAt, cacheAt, position);
        }
        mix?.(packedAt, cacheAt, length - 1, scoresAt, outputAt);
        for (const [channel, value] of exactly(tokens, shape).entries())
          expect(numbers[outputAt / 4 + channel]).toBeCloseTo(value, 5);
      }),
      { numRuns: 60, seed: 11 },
    );
  });
});
