import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { f32, f32x4, i32 } from '../../../../src/engines/embedded/wasm/instructions.ts';
import { Exponential, eachVector, largestOf, sumOf } from '../../../../src/engines/embedded/wasm/vectors.ts';
import { WasmModule } from '../../../../src/engines/embedded/wasm/wasm-module.ts';

/** A function of a memory, which it gets at address 0 and changes. */
function compile(relaxedSimd: boolean, write: Parameters<WasmModule['add']>[2]) {
  const module = new WasmModule({ relaxedSimd });
  module.add('run', ['at', 'end'], write);
  const memory = new WebAssembly.Memory({ initial: 1 });
  const { run } = new WebAssembly.Instance(new WebAssembly.Module(module.finish()), {
    environment: { memory },
  }).exports as { run: (at: number, end: number) => void };
  return (values: readonly number[]): number[] => {
    const numbers = new Float32Array(memory.buffer);
    numbers.set(values);
    run(0, values.length * 4);
    return [...numbers.subarray(0, values.length)];
  };
}

describe.each([true, false])('vectors of WebAssembly, with relaxed SIMD: %s', (relaxedSimd) => {
  const exponentials = compile(relaxedSimd, (code, { at, end }) => {
    if (!at || !end) throw new Error('the function has parameters');
    const exponential = new Exponential(code);
    eachVector(code, at, end.get, () => code.do(f32x4.store(at.get, 0, exponential.of(f32x4.load(at.get)))));
  });

  it('compute exponentials of numbers up to 0 with a relative error below 2e-7', () => {
    fc.assert(
      fc.property(
        fc.array(fc.float({ min: -87, max: 0, noNaN: true }), { minLength: 4, maxLength: 4 }),
        (x) => {
          for (const [index, value] of exponentials(x).entries()) {
            const exact = Math.exp(Math.fround(x[index] as number));
            expect(Math.abs(value - exact) / exact).toBeLessThan(2e-7);
          }
        },
      ),
      { numRuns: 2000, seed: 3 },
    );
  });

  it('make 0 of very small numbers, 1 of 0, and keep NaN', () => {
    expect(exponentials([Number.NEGATIVE_INFINITY, -1e30, -88, 0])).toEqual([0, 0, 0, 1]);
    expect(exponentials([Number.NaN, 0, -100, Number.NaN])).toEqual([Number.NaN, 1, 0, Number.NaN]);
  });

  it('add up and compare their four numbers', () => {
    const sums = compile(relaxedSimd, (code, { at }) => {
      if (!at) throw new Error('the function has parameters');
      const value = code.local('v128', f32x4.load(at.get));
      code.do(f32.store(at.get, 0, sumOf(value)), f32.store(at.get, 4, largestOf(value)));
    });
    expect(sums([1, 2, 4, 8]).slice(0, 2)).toEqual([15, 8]);
    expect(sums([1, Number.NaN, 4, 8]).slice(0, 2)).toEqual([Number.NaN, Number.NaN]);
  });

  it('take whole numbers of any size as addresses', () => {
    for (const part of [0, 1, -1, 63, 64, -64, -65, 8191, -8193, 2 ** 20, 2 ** 31 - 1, -(2 ** 31)]) {
      const store = compile(relaxedSimd, (code) =>
        code.do(f32.store(i32.add(i32.constant(part), i32.constant((12 - part) | 0)), 0, f32.constant(1))),
      );
      expect(store([0, 0, 0, 0, 0])).toEqual([0, 0, 0, 1, 0]);
    }
  });
});
