import { expect, it } from 'vitest';
import { rotaryTables } from '../../../../src/engines/embedded/checkpoint/rotary-tables.ts';
import { readFixtureJson, readFixtureTensors } from './reference.ts';

interface Ropes {
  positions: number[];
  ropes: Record<string, Rope>;
}

interface Rope {
  head_dim: number;
  rope_theta: number;
  rope_scaling:
    | (Record<
        'factor' | 'low_freq_factor' | 'high_freq_factor' | 'original_max_position_embeddings',
        number
      > & { rope_type: 'llama3' })
    | { rope_type: 'linear'; factor: number }
    | null;
}

it('rotary tables are those of transformers for published settings', async () => {
  const { positions, ropes } = await readFixtureJson<Ropes>('rope.json');
  const tables = await readFixtureTensors('rope.safetensors');
  for (const [name, { head_dim: headWidth, rope_theta: theta, rope_scaling: rope }] of Object.entries(
    ropes,
  )) {
    const scaling =
      rope?.rope_type === 'llama3'
        ? {
            factor: rope.factor,
            lowFrequencyFactor: rope.low_freq_factor,
            highFrequencyFactor: rope.high_freq_factor,
            originalContextLength: rope.original_max_position_embeddings,
          }
        : (rope?.factor ?? null);
    const length = Math.max(...positions) + 1;
    const { cosines, sines } = rotaryTables({ theta, scaling }, headWidth, length);
    const half = headWidth / 2;
    for (const [row, position] of positions.entries())
      for (const [ours, theirs] of [
        [cosines, tables.get(`${name}.cos`)],
        [sines, tables.get(`${name}.sin`)],
      ] as const)
        for (let index = 0; index < half; index++) {
          const difference = Math.abs(
            (ours[position * half + index] ?? NaN) - Number(theirs?.data[row * half + index]),
          );
          // Rounding of cosines, and of a few frequencies.
          expect(difference, `${name} ${position} ${index}`).toBeLessThan(1e-7 + position * 3e-10);
        }
  }
});
