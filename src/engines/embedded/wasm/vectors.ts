import { type Code, f32, f32x4, i32, i32x4 } from './instructions.ts';
import { floatBytes } from './wasm-memory.ts';
import type { FunctionWriter, Local } from './wasm-module.ts';

/** Repeats `body` while `at` goes from vector to vector, up to the address `end`. */
export function eachVector(code: FunctionWriter, at: Local, end: Code, body: () => void): void {
  code.repeat(() => {
    body();
    code.do(code.advance(at, 4 * floatBytes));
    return i32.differs(at.get, end);
  });
}

/** Sum of a vector's four numbers. */
export const sumOf = (value: Local): Code => {
  const lane = (index: number) => f32x4.lane(value.get, index);
  return f32.add(f32.add(lane(0), lane(1)), f32.add(lane(2), lane(3)));
};

export const largestOf = (value: Local): Code => {
  const lane = (index: number) => f32x4.lane(value.get, index);
  return f32.largest(f32.largest(lane(0), lane(1)), f32.largest(lane(2), lane(3)));
};

/** Coefficients of (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, of Cephes' expf (Moshier 1989), the highest power first. */
const coefficients = [
  1.98756915e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
] as const;
/** ln(2) in two parts, of which the first times a whole number of 8 bits is exact. */
const ln2 = [0.693359375, -2.1219444e-4] as const;
/** The smallest number whose exponential has all digits. */
const smallest = -87.3;

/** Writes exp(x) of numbers up to 0: 0 below -87.3, NaN for NaN, and otherwise with a relative error below 2e-7. */
export class Exponential {
  readonly #code: FunctionWriter;
  readonly #locals: [Local, Local, Local];

  constructor(code: FunctionWriter) {
    this.#code = code;
    this.#locals = [code.local('v128'), code.local('v128'), code.local('v128')];
  }

  of(value: Code): Code {
    const code = this.#code;
    const [x, power, rest] = this.#locals;
    code.do(x.set(value));
    code.do(power.set(f32x4.nearest(f32x4.multiply(x.get, f32x4.constant(Math.LOG2E)))));
    const minus = (part: number, from: Code) => code.multiplyAdd(power.get, f32x4.constant(-part), from);
    code.do(rest.set(minus(ln2[1], minus(ln2[0], x.get))));
    const polynomial = coefficients
      .map(f32x4.constant)
      .reduce((sum, next) => code.multiplyAdd(sum, rest.get, next));
    const exponential = f32x4.add(
      code.multiplyAdd(polynomial, f32x4.multiply(rest.get, rest.get), rest.get),
      f32x4.constant(1),
    );
    const biased = i32x4.add(i32x4.truncate(power.get), i32x4.all(i32.constant(127)));
    const scaled = f32x4.multiply(exponential, i32x4.shiftLeft(biased, 23));
    return f32x4.except(scaled, f32x4.isLess(x.get, f32x4.constant(smallest)));
  }
}
