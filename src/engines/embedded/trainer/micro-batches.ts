import type { Tensor } from 'onnxruntime-common';
import { largestOf } from '../../../util/extremes.ts';
import { tokenFeeds } from '../graphs/token-feeds.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import type { Decision, TrainingSequence } from './decisions.ts';

/**
 * Padded tokens of one run of the graphs. The largest is the fastest size; the least takes 5 % longer a token, and is
 * for batches that would give a machine's cores less than one run each.
 */
const tokensPerRun = { least: 512, largest: 1024 };
/** Runs that a batch of medium size is cut into. */
const runsPerBatch = 4;
const masked = -1e9;

/** The tokens of sequences that run through the graphs together. They can be sent to another thread. */
export interface BatchTokens {
  sequences: {
    tokens: number[];
    /** Positions of the tokens whose logits are requested. */
    positions: number[];
  }[];
  /** Padded length of the sequences. */
  time: number;
  /** Largest number of requested positions in a sequence: each sequence has that many rows of logits. */
  picks: number;
}

/** Sequences that run through the graphs together, with their decisions. */
export interface MicroBatch extends BatchTokens {
  trained: readonly TrainingSequence[];
  /** The decisions of each sequence in order, each with its row of the logits. */
  decisions: { decision: Decision; row: number }[][];
}

/**
 * Groups sequences of similar length, to pad little. Leaves out sequences without decisions. The groups depend on the
 * sequences alone, never on the number of threads, because the gradients are rounded as they are added up.
 */
export function toMicroBatches(sequences: readonly TrainingSequence[]): MicroBatch[] {
  const batches: MicroBatch[] = [];
  const byLength = sequences
    .filter(({ decisions }) => decisions.length > 0)
    .sort((a, b) => b.tokens.length - a.tokens.length);
  const total = byLength.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const { least, largest } = tokensPerRun;
  const size = Math.min(largest, Math.max(least, Math.ceil(total / runsPerBatch)));
  let start = 0;
  while (start < byLength.length) {
    const longest = (byLength[start] as TrainingSequence).tokens.length;
    const time = Math.ceil(longest / 8) * 8;
    const part = byLength.slice(start, start + Math.max(1, Math.floor(size / time)));
    const picks = largestOf(part.map(({ decisions }) => decisions.length));
    batches.push({
      trained: part,
      sequences: part.map(({ tokens, decisions }) => ({
        tokens,
        positions: decisions.map(({ position }) => position),
      })),
      time,
      picks,
      decisions: part.map(({ decisions }, index) =>
        decisions.map((decision, pick) => ({ decision, row: index * picks + pick })),
      ),
    });
    start += part.length;
  }
  return batches;
}

/** The inputs of the training graphs besides the parameters: of both passes, the forward and the backward pass. */
export function feedsOf(
  { sequences, time, picks }: BatchTokens,
  previousTokens: number,
  runtime: Runtime,
): { shared: Feeds; causal: Tensor; sources: Tensor } {
  const batch = sequences.length;
  const positions = new BigInt64Array(batch * picks);
  const rows = new BigInt64Array(batch * picks);
  const sources = new BigInt64Array(batch * time);
  const ranges = sequences.map(({ tokens, positions: picked }, row) => {
    // Unused rows point to the sequence's first position; they get no gradient.
    for (let pick = 0; pick < picks; pick++) {
      const position = picked[pick] ?? 0;
      positions[row * picks + pick] = BigInt(position);
      rows[row * picks + pick] = BigInt(row * time + position);
      if (pick < picked.length) sources[row * time + position] = BigInt(row * picks + pick + 1);
    }
    return { tokens, start: 0, end: tokens.length, offset: row * time };
  });
  const causal = new Float32Array(time * time);
  for (let at = 0; at < time; at++) causal.fill(masked, at * time + at + 1, (at + 1) * time);
  return {
    shared: {
      ...tokenFeeds(runtime, previousTokens, [batch, time], ranges),
      positions: runtime.integer(positions, [batch, picks]),
      rows: runtime.integer(rows, [rows.length]),
    },
    causal: runtime.float(causal, [time, time]),
    sources: runtime.integer(sources, [batch * time]),
  };
}
