import { EngineError } from '../../engine.ts';
import type { Architecture } from '../weights/architecture.ts';

/** Decisions whose logits are computed together. */
export const headRows = 64;

/** Padded sequences that run together. */
interface BatchSize {
  sequences: number;
  /** Padded length of each. */
  time: number;
}

/**
 * Largest amounts that are in memory together in the backward pass of a layer, or in the head: attention scores and
 * what they become, hidden states of the MLP, states of the width of the heads, states of the model's width, logits.
 */
const alive = { scores: 6, hidden: 8, heads: 8, states: 10, logits: 6 };

/**
 * Bytes that training needs for a micro-batch beside the weights: the inputs of all layers, and the larger of one
 * layer's backward pass and a chunk of the head. Attention takes the most when sequences are long: its scores are
 * heads * time^2 for each sequence, of one layer at a time.
 */
export function trainingBytes(architecture: Architecture, { sequences, time }: BatchSize): number {
  const { width, layers, heads, keyValueHeads, headWidth, mlpWidth, vocabularySize } = architecture;
  const tokens = sequences * time;
  const kept = (layers + 2) * tokens * width;
  const layer =
    alive.scores * sequences * heads * time * time +
    tokens *
      (alive.hidden * mlpWidth + alive.heads * (heads + keyValueHeads) * headWidth + alive.states * width);
  const head = alive.logits * headRows * vocabularySize;
  return 4 * (kept + Math.max(layer, head));
}

/**
 * The most sequences of a length that fit into some bytes. Throws an `EngineError` when not even one does.
 */
export function sequencesThatFit(architecture: Architecture, time: number, bytes: number): number {
  const needed = trainingBytes(architecture, { sequences: 1, time });
  if (needed > bytes)
    throw new EngineError(
      'too_long',
      `training a sequence of ${time} tokens needs ${gigabytes(needed)} GB beside the weights, and ${gigabytes(bytes)} GB are allowed; shorten the sequence or allow more`,
    );
  let sequences = Math.floor(bytes / needed);
  while (trainingBytes(architecture, { sequences: sequences + 1, time }) <= bytes) sequences++;
  return sequences;
}

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(2);
