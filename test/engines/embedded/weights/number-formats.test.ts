import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromFloat32, toFloat32 } from '../../../../src/engines/embedded/weights/number-formats.ts';
import { testSeed } from '../../../support/size.ts';
import { numbersOf } from '../checkpoint/folder.ts';

const everyHalf = Uint16Array.from({ length: 65_536 }, (_, bits) => bits);

describe.each(['BF16', 'F16'] as const)('%s', (format) => {
  const values = numbersOf(format, new Uint8Array(everyHalf.buffer));

  it('becomes float32 and comes back unchanged, every number of it', () => {
    const numbers = new Float32Array(65_536);
    toFloat32(format, new Uint8Array(everyHalf.buffer), numbers);
    expect(Array.from(numbers)).toEqual(values);
    const back = new Uint16Array(fromFloat32(format, numbers).buffer);
    const changed = everyHalf.filter((bits, index) => back[index] !== bits && !Number.isNaN(values[bits]));
    expect([...changed]).toEqual([]);
    expect(numbersOf(format, new Uint8Array(back.buffer))).toEqual(values);
  });

  it('is the nearest to a float32, and the even one of two that are as near', () => {
    const finite = values.flatMap((value, bits) =>
      Number.isFinite(value) && bits < 0x8000 ? [{ value, bits }] : [],
    );
    const largest = finite.at(-1)?.value ?? 0;
    const numbers = fc.oneof(
      fc.float({ min: Math.fround(-largest), max: Math.fround(largest), noNaN: true }),
      fc.float({ min: Math.fround(-1e-4), max: Math.fround(1e-4), noNaN: true }),
      // Just between two numbers of the format, and one unit of float32 beside it.
      fc.tuple(fc.nat({ max: finite.length - 2 }), fc.constantFrom(-1, 0, 1)).map(([index, beside]) => {
        const middle = ((finite[index]?.value ?? 0) + (finite[index + 1]?.value ?? 0)) / 2;
        const bits = new Uint32Array(Float32Array.of(middle).buffer);
        bits[0] = Math.max(0, (bits[0] ?? 0) + beside);
        return new Float32Array(bits.buffer)[0] ?? 0;
      }),
    );
    const property = fc.property(numbers, (number) => {
      const bytes = fromFloat32(format, Float32Array.of(number));
      const bits = (new Uint16Array(bytes.buffer)[0] ?? 0) & 0x7fff;
      const distance = (index: number) => Math.abs(Math.abs(number) - (finite[index]?.value ?? Number.NaN));
      for (const neighbour of [bits - 1, bits + 1]) {
        if (!finite[neighbour]) continue;
        expect(distance(bits)).toBeLessThanOrEqual(distance(neighbour));
        if (distance(bits) === distance(neighbour)) expect(bits % 2).toBe(0);
      }
      expect(Math.sign(numbersOf(format, bytes)[0] ?? 0) * Math.sign(number)).toBeGreaterThanOrEqual(0);
    });
    fc.assert(property, { seed: testSeed, numRuns: 5000 });
  });

  it('has infinities and NaN', () => {
    // 3.4e38 lies beyond the middle of the largest bfloat16, 3.39e38, and 2^128.
    const special = Float32Array.of(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 3.4e38, -3.4e38);
    const infinities = numbersOf(format, fromFloat32(format, special));
    expect(infinities).toEqual([1, -1, 1, -1].map((sign) => sign * Number.POSITIVE_INFINITY));
    expect(numbersOf(format, fromFloat32(format, Float32Array.of(Number.NaN)))).toEqual([Number.NaN]);
  });
});
