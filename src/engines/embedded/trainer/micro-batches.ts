import type { Tensor } from 'onnxruntime-common';
import type { Feeds, Runtime } from '../runtime.ts';
import type { Decision, TrainingSequence } from './decisions.ts';

/** Padded tokens of one run of the graphs: about the fastest, and little memory. */
const tokensPerRun = 2048;
const masked = -1e9;

/** Sequences that run through the graphs together. */
export interface MicroBatch {
  sequences: TrainingSequence[];
  /** Length the sequences are padded to. */
  time: number;
  /** Decisions of the sequence that has most: each sequence has that many rows of logits. */
  picks: number;
  /** For each sequence its decisions in order, each with its row of the logits. */
  decisions: { decision: Decision; row: number }[][];
}

/** Groups sequences of like length, so that little is padding. Those without a decision are left out. */
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

/** Inputs of the training graphs, beside the parameters. */
export interface MicroBatchFeeds {
  /** Of both passes. */
  shared: Feeds;
  /** Of the forward pass alone. */
  causal: Tensor;
  /** Of the backward pass alone. */
  sources: Tensor;
}

export function feedsOf(
  { sequences, time, picks }: MicroBatch,
  previousTokens: number,
  runtime: Runtime,
): MicroBatchFeeds {
  const batch = sequences.length;
  const ids = new BigInt64Array(batch * time);
  const previous = Array.from({ length: previousTokens }, () => new BigInt64Array(batch * time));
  const positions = new BigInt64Array(batch * picks);
  const rows = new BigInt64Array(batch * picks);
  const sources = new BigInt64Array(batch * time);
  sequences.forEach(({ tokens, decisions }, row) => {
    for (let at = 0; at < tokens.length; at++) {
      const id = BigInt(tokens[at] as number);
      ids[row * time + at] = id;
      for (let distance = 1; distance <= previousTokens && at + distance < tokens.length; distance++)
        (previous[distance - 1] as BigInt64Array)[row * time + at + distance] = id;
    }
    // Rows beyond a sequence's decisions stand for its first place; nothing flows back from them.
    for (let pick = 0; pick < picks; pick++) {
      const position = decisions[pick]?.position ?? 0;
      positions[row * picks + pick] = BigInt(position);
      rows[row * picks + pick] = BigInt(row * time + position);
      if (decisions[pick]) sources[row * time + position] = BigInt(row * picks + pick + 1);
    }
  });
  const causal = new Float32Array(time * time);
  for (let at = 0; at < time; at++) causal.fill(masked, at * time + at + 1, (at + 1) * time);
  const shared: Feeds = {
    ids: runtime.integer(ids, [batch, time]),
    positions: runtime.integer(positions, [batch, picks]),
    rows: runtime.integer(rows, [rows.length]),
  };
  previous.forEach((values, index) => {
    shared[`previous.${index + 1}`] = runtime.integer(values, [batch, time]);
  });
  return {
    shared,
    causal: runtime.float(causal, [time, time]),
    sources: runtime.integer(sources, [batch * time]),
  };
}
