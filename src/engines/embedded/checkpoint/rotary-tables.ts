import type { RotaryPositions } from '../weights/architecture.ts';

/**
 * Cosines and sines of rotary positions (Su et al. 2021, arXiv:2104.09864), each [length, headWidth / 2]: the angle of
 * position p and pair i is p * frequency i. Elements i and i + headWidth / 2 of a head are rotated together, as in
 * transformers, whose rounding to float32 is repeated.
 */
export function rotaryTables(
  positions: RotaryPositions,
  headWidth: number,
  length: number,
): { cosines: Float32Array; sines: Float32Array } {
  const frequencies = rotaryFrequencies(positions, headWidth);
  const half = frequencies.length;
  const cosines = new Float32Array(length * half);
  const sines = new Float32Array(length * half);
  for (let position = 0; position < length; position++)
    for (const [index, frequency] of frequencies.entries()) {
      const angle = Math.fround(position * frequency);
      cosines[position * half + index] = Math.cos(angle);
      sines[position * half + index] = Math.sin(angle);
    }
  return { cosines, sines };
}

/**
 * The angle by which each pair of elements turns from one position to the next. The scaling by bands is as in Llama 3.1
 * (`_compute_llama3_parameters` in transformers' `modeling_rope_utils.py`): long waves get longer by `factor`, short
 * ones stay, and waves in between change smoothly.
 */
export function rotaryFrequencies({ theta, scaling }: RotaryPositions, headWidth: number): Float32Array {
  const frequencies = Float32Array.from(
    { length: headWidth / 2 },
    (_, index) => 1 / Math.fround(theta ** Math.fround((2 * index) / headWidth)),
  );
  if (!scaling) return frequencies;
  if (typeof scaling === 'number') return frequencies.map((frequency) => frequency / scaling);
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalContextLength } = scaling;
  return frequencies.map((frequency) => {
    const wavesInContext = (originalContextLength * frequency) / (2 * Math.PI);
    if (wavesInContext < lowFrequencyFactor) return frequency / factor;
    if (wavesInContext > highFrequencyFactor) return frequency;
    const smoothness = (wavesInContext - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
    return ((1 - smoothness) * frequency) / factor + smoothness * frequency;
  });
}
