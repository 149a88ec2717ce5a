import type { Tensor } from 'onnxruntime-common';
import { tokenFeeds } from '../graphs/token-feeds.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import type { Decision, TrainingSequence } from './decisions.ts';

/** Padded tokens of one run of the graphs: close to the fastest size, and needs little memory. */
const tokensPerRun = 2048;
const masked = -1e9;

/** Sequences that run through the graphs together. */
export interface MicroBatch {
  sequences: TrainingSequence[];
  /** Padded length of the sequences. */
  time: number;
  /** Largest number of decisions in a sequence: each sequence has that many rows of logits. */
  picks: number;
  /** The decisions of each sequence in order, each with its row of the logits. */
  decisions: { decision: Decision; row: number }[][];
}

/** Groups sequences of similar length, to pad little. Leaves out sequences without decisions. */
export function toMicroBatches(sequences: readonly TrainingSequence[]): MicroBatch[] {
  const batches: MicroBatch[] = [];
  const byLength = sequences
    .filter(({ decisions }) => decisions.length > 0)
    .sort((a, b) => b.tokens.length - a.tokens.length);
  let start = 0;
  while (start < byLength.length) {
    const longest = (byLength[start] as TrainingSequence).tokens.length;
    const time = Math.ceil(longest / 8) * 8;
    const part = byLength.slice(start, start + Math.max(1, Math.floor(tokensPerRun / time)));
    const picks = Math.max(...part.map(({ decisions }) => decisions.length));
    const decisions = part.map((sequence, at) =>
      sequence.decisions.map((decision, pick) => ({ decision, row: at * picks + pick })),
    );
    batches.push({ sequences: part, time, picks, decisions });
    start += part.length;
  }
  return batches;
}

/** The inputs of the training graphs besides the parameters: of both passes, the forward and the backward pass. */
export function feedsOf(
  { sequences, time, picks }: MicroBatch,
  previousTokens: number,
  runtime: Runtime,
): { shared: Feeds; causal: Tensor; sources: Tensor } {
  const batch = sequences.length;
  const positions = new BigInt64Array(batch * picks);
  const rows = new BigInt64Array(batch * picks);
  const sources = new BigInt64Array(batch * time);
  const ranges = sequences.map(({ tokens, decisions }, row) => {
    // Unused rows point to the sequence's first position; they get no gradient.
    for (let pick = 0; pick < picks; pick++) {
      const position = decisions[pick]?.position ?? 0;
      positions[row * picks + pick] = BigInt(position);
      rows[row * picks + pick] = BigInt(row * time + position);
      if (decisions[pick]) sources[row * time + position] = BigInt(row * picks + pick + 1);
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
