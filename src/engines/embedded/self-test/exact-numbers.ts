import { sumOf } from '../../../util/sums.ts';
import type { RotaryPositions } from '../weights/architecture.ts';

/** A vector of a token, in float64. */
export type Values = Float64Array;
/** One vector for each token. */
export type Rows = Values[];

/** x W^T + bias + scale * (x A^T) B^T, with W [outputs, inputs], A [rank, inputs] and B [outputs, rank]. */
export interface ExactLinear {
  weight: Float32Array;
  bias: Float32Array | undefined;
  a: Float32Array | undefined;
  b: Float32Array | undefined;
  scale: number;
  /** Gets dLoss/dA and dLoss/dB. */
  keep(a: Values, b: Values): void;
}

export function forward({ weight, bias, a, b, scale }: ExactLinear, input: Rows): Rows {
  const output = products(weight, input);
  if (bias) for (const row of output) addScaled(row, bias, 1);
  if (!a || !b) return output;
  return both(output, products(b, products(a, input)), (value, change) => value + scale * change);
}

export function backward({ weight, a, b, scale, keep }: ExactLinear, gradient: Rows, input: Rows): Rows {
  const inputs = input[0]?.length ?? 0;
  const direct = transposedProducts(weight, gradient, inputs);
  if (!a || !b) return direct;
  const low = products(a, input);
  const rank = low[0]?.length ?? 0;
  const lowGradient = transposedProducts(b, gradient, rank).map((row) => row.map((value) => value * scale));
  keep(
    outerProducts(lowGradient, input),
    outerProducts(gradient, low).map((value) => value * scale),
  );
  return sum(direct, transposedProducts(a, lowGradient, inputs));
}

/** The sum of x y^T over the tokens. */
function outerProducts(left: Rows, right: Rows): Values {
  const [height, width] = [left[0]?.length ?? 0, right[0]?.length ?? 0];
  const result = new Float64Array(height * width);
  for (const [at, row] of right.entries())
    for (let index = 0; index < height; index++)
      addScaled(result.subarray(index * width, (index + 1) * width), row, left[at]?.[index] as number);
  return result;
}

/** M x for each x, with the matrix M [outputs, inputs]. Four at once, because reading M takes the most time. */
export function products(matrix: Float32Array, rows: Rows): Rows {
  const inputs = rows[0]?.length ?? 0;
  const outputs = matrix.length / inputs;
  const results = rows.map(() => new Float64Array(outputs));
  const none = new Float64Array(inputs);
  for (let start = 0; start < rows.length; start += 4) {
    const [x, y, z, w] = [0, 1, 2, 3].map((next) => rows[start + next] ?? none) as [
      Values,
      Values,
      Values,
      Values,
    ];
    for (let output = 0, at = 0; output < outputs; output++) {
      let one = 0;
      let two = 0;
      let three = 0;
      let four = 0;
      for (let index = 0; index < inputs; index++, at++) {
        const factor = matrix[at] as number;
        one += factor * (x[index] as number);
        two += factor * (y[index] as number);
        three += factor * (z[index] as number);
        four += factor * (w[index] as number);
      }
      for (const [next, total] of [one, two, three, four].entries())
        if (start + next < rows.length) (results[start + next] as Values)[output] = total;
    }
  }
  return results;
}

/** M^T x for each x, with the matrix M [outputs, inputs]. Four rows at once, because each sum is stored. */
export function transposedProducts(matrix: Float32Array, rows: Rows, inputs: number): Rows {
  const outputs = matrix.length / inputs;
  const results = rows.map(() => new Float64Array(inputs));
  for (let output = 0; output < outputs; output += 4)
    for (let at = 0; at < rows.length; at++) {
      const x = rows[at] as Values;
      const result = results[at] as Values;
      const from = output * inputs;
      const [one, two, three, four] = [0, 1, 2, 3].map((next) => x[output + next] ?? 0) as [
        number,
        number,
        number,
        number,
      ];
      if (output + 4 <= outputs)
        for (let index = 0; index < inputs; index++)
          result[index] =
            (result[index] as number) +
            (matrix[from + index] as number) * one +
            (matrix[from + inputs + index] as number) * two +
            (matrix[from + 2 * inputs + index] as number) * three +
            (matrix[from + 3 * inputs + index] as number) * four;
      else
        for (let row = output; row < outputs; row++)
          addScaled(result, matrix.subarray(row * inputs, (row + 1) * inputs), x[row] as number);
    }
  return results;
}

/** x / sqrt(mean(x^2) + epsilon) * gain. */
export function normalize(x: Values, gain: Float32Array, epsilon: number): Values {
  const root = Math.sqrt(dot(x, x) / x.length + epsilon);
  return x.map((value, index) => (value / root) * (gain[index] as number));
}

/** With r the root and g = gradient * gain: g / r - x * dot(g, x) / (n * r^3). */
export function normalizeBackward(gradient: Values, x: Values, gain: Float32Array, epsilon: number): Values {
  const root = Math.sqrt(dot(x, x) / x.length + epsilon);
  const scaled = gradient.map((value, index) => value * (gain[index] as number));
  const factor = dot(scaled, x) / (x.length * root ** 3);
  return scaled.map((value, index) => value / root - (x[index] as number) * factor);
}

/** Turns the elements i and i + half by position * frequency i: Su et al. 2021, arXiv:2104.09864, as transformers does. */
export function rotate(x: Values, positions: RotaryPositions, position: number): Values {
  const half = x.length / 2;
  const turned = new Float64Array(x.length);
  for (let index = 0; index < half; index++) {
    const angle = position * frequencyOf(positions, index / half);
    const [first, second] = [x[index] as number, x[index + half] as number];
    turned[index] = first * Math.cos(angle) - second * Math.sin(angle);
    turned[index + half] = second * Math.cos(angle) + first * Math.sin(angle);
  }
  return turned;
}

/** theta^-share, and with Llama 3's scaling: long waves slower by `factor`, those in between by a part of it. */
function frequencyOf({ theta, scaling }: RotaryPositions, share: number): number {
  const frequency = theta ** -share;
  if (!scaling) return frequency;
  if (typeof scaling === 'number') return frequency / scaling;
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContextLength } = scaling;
  const waves = (originalContextLength * frequency) / (2 * Math.PI);
  const kept = Math.min(1, Math.max(0, (waves - low) / (high - low)));
  return frequency * (kept + (1 - kept) / factor);
}

export function softmax(values: Values): Values {
  const largest = values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const likelihoods = values.map((value) => Math.exp(value - largest));
  const total = sumOf(likelihoods);
  return likelihoods.map((value) => value / total);
}

export function logSoftmax(logits: Float64Array): Float64Array {
  const largest = logits.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const total = sumOf(logits, (value) => Math.exp(value - largest));
  return logits.map((value) => value - largest - Math.log(total));
}

export function dot(one: Values, other: Values): number {
  let total = 0;
  for (let index = 0; index < one.length; index++) total += (one[index] as number) * (other[index] as number);
  return total;
}

export function addScaled(target: Values, added: Float64Array | Float32Array, factor: number): void {
  for (let index = 0; index < target.length; index++)
    target[index] = (target[index] as number) + (added[index] as number) * factor;
}

export const multiply = (one: number, other: number) => one * other;
export const both = (one: Rows, other: Rows, combine: (a: number, b: number) => number): Rows =>
  one.map((row, at) => row.map((value, index) => combine(value, other[at]?.[index] as number)));
export const sum = (one: Rows, other: Rows): Rows => both(one, other, (a, b) => a + b);
