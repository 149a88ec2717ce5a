import { type Architecture, isLookup, tensorShapes } from '../weights/architecture.ts';
import type { MicroBatch } from './micro-batches.ts';

/** What the backward graph gives of a micro-batch. */
export interface GradientOutputs {
  /** The flat gradient without the tables that are looked up by token. */
  gradient: Float32Array;
  /** What flows into each place's embedding, [batch * time, width]. */
  embedding: Float32Array;
}

/**
 * Adds a micro-batch's gradient to the total, laid out like the parameters. The rows of the looked-up tables are
 * added here, one after another: many places share a token, and their sum must neither lose a part nor depend on
 * the number of threads.
 */
export function addGradient(
  total: Float32Array,
  architecture: Architecture,
  { sequences, time }: Pick<MicroBatch, 'sequences' | 'time'>,
  { gradient, embedding }: GradientOutputs,
): void {
  const { width } = architecture;
  let from = 0;
  for (const { name, offset, size } of tensorShapes(architecture)) {
    if (!isLookup(name)) {
      for (let index = 0; index < size; index++)
        total[offset + index] = (total[offset + index] as number) + (gradient[from + index] as number);
      from += size;
      continue;
    }
    const distance = name === 'token_embedding' ? 0 : Number(name.slice(name.lastIndexOf('.') + 1));
    sequences.forEach(({ tokens }, sequence) => {
      for (let at = 0; at < tokens.length; at++) {
        // Before the beginning stands token 0, in the graphs too.
        const token = at >= distance ? (tokens[at - distance] as number) : 0;
        const target = offset + token * width;
        const source = (sequence * time + at) * width;
        for (let index = 0; index < width; index++)
          total[target + index] = (total[target + index] as number) + (embedding[source + index] as number);
      }
    });
  }
}
