import { sumOf } from '../../../util/sums.ts';
import type { SoftmaxDecisions } from '../runner/head-runner.ts';
import { type PaddedTokens, type Row, rowIndex, toRows } from '../runner/shared-prefixes.ts';
import { batchSizeOf, keptLayers, tokensPerRun, trainingBytes } from '../runner/training-memory.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Decision, TrainingSequence } from './decisions.ts';

/** Where several threads share the runs, a batch of medium size is cut into so many, and a larger one into a multiple. */
const sharedRuns = 4;

/** Rows that run through the graphs together. */
export interface MicroBatch {
  rows: readonly Row<TrainingSequence>[];
  /** Padded length. */
  time: number;
  /** Layers whose forward pass keeps what the backward pass needs. */
  keptLayers: number;
}

interface BatchLimits {
  architecture: Architecture;
  /** What training may use beside the weights: see `trainingBytes`. */
  bytes: number;
  /** Whether forward passes may keep values for the backward passes. */
  keepsLayers: boolean;
  /** Whether a batch is cut into runs for several threads, however many there are: sums of gradients are rounded. */
  isShared: boolean;
}

/**
 * Groups rows of similar length into micro-batches that fit into the memory, and leaves out sequences without decisions.
 * Throws an `EngineError` when one sequence alone does not fit.
 */
export function toMicroBatches(
  sequences: readonly TrainingSequence[],
  { architecture, bytes, keepsLayers, isShared }: BatchLimits,
): MicroBatch[] {
  const trained = sequences.filter(({ decisions }) => decisions.length > 0);
  const longest = longestRow(architecture, bytes);
  const byLength = toRows(trained, architecture, (time) => time <= longest).sort(
    (a, b) => b.tokens.length - a.tokens.length,
  );
  let left = tokensIn(byLength);
  let runs = isShared ? runsOf(left) : 0;
  const batches: MicroBatch[] = [];
  for (let start = 0; start < byLength.length; ) {
    const time = byLength[start]?.tokens.length ?? 0;
    const fitting = byLength.slice(start, start + batchSizeOf(architecture, time, bytes));
    const rows = runs > 0 ? withTokens(fitting, left / runs) : fitting;
    const size = { sequences: rows.length, time };
    batches.push({ rows, time, keptLayers: keepsLayers ? keptLayers(architecture, size, bytes) : 0 });
    left -= tokensIn(rows);
    start += rows.length;
    runs--;
  }
  return batches;
}

/** Runs of about the same size for several threads, so that none waits for the last run of another. */
function runsOf(tokens: number): number {
  const { least, largest } = tokensPerRun;
  if (tokens <= sharedRuns * largest) return Math.min(sharedRuns, Math.ceil(tokens / least));
  return sharedRuns * Math.ceil(tokens / largest / sharedRuns);
}

const tokensIn = (rows: readonly Row<TrainingSequence>[]): number =>
  sumOf(rows, ({ tokens }) => tokens.length);

/** The first rows, at least one, that come nearest to a number of tokens. */
function withTokens(
  rows: readonly Row<TrainingSequence>[],
  tokens: number,
): readonly Row<TrainingSequence>[] {
  let sum = 0;
  const end = rows.findIndex((row, index) => {
    if (index > 0 && sum + row.tokens.length / 2 > tokens) return true;
    sum += row.tokens.length;
    return false;
  });
  return end < 0 ? rows : rows.slice(0, end);
}

/** The most tokens of one row that fit into the memory, found once: rows are tried by the thousand. */
function longestRow(architecture: Architecture, bytes: number): number {
  const fits = (time: number) => trainingBytes(architecture, { sequences: 1, time }) <= bytes;
  let [most, beyond] = [0, 1];
  for (; beyond < Number.MAX_SAFE_INTEGER && fits(beyond); beyond *= 2) most = beyond;
  while (beyond - most > 1) {
    const middle = Math.floor((most + beyond) / 2);
    if (fits(middle)) most = middle;
    else beyond = middle;
  }
  return most;
}

/** The sequences of a micro-batch, in the order of its decisions. */
export const sequencesOf = ({ rows }: MicroBatch): TrainingSequence[] =>
  rows.flatMap(({ sequences }) => sequences);

export const tokensOf = ({ rows, time }: MicroBatch): PaddedTokens => ({
  sequences: rows.map(({ tokens }) => tokens),
  time,
  branches: rows.map(({ branches }) => branches),
});

/** The decisions of a micro-batch, each with the index of the state that predicts its token. */
export interface PlacedDecisions {
  all: readonly Decision[];
  states: Int32Array;
  /** Those whose distribution the graphs compute, and their indices among all. */
  softmax: SoftmaxDecisions;
  softmaxAt: Int32Array;
  /** Indices of the others. */
  othersAt: Int32Array;
}

export function placeDecisions(batch: MicroBatch): PlacedDecisions {
  const all: Decision[] = [];
  const places: number[] = [];
  for (const [row, { sequences, branches }] of batch.rows.entries())
    for (const [sequence, { decisions }] of sequences.entries())
      for (const decision of decisions) {
        all.push(decision);
        places.push(row * batch.time + rowIndex(branches, sequence, decision.position));
      }
  const states = Int32Array.from(places);
  const softmaxAt = Int32Array.from(all.keys()).filter((index) => all[index]?.isSoftmax);
  const pick = <Value extends Int32Array | Float32Array>(
    values: Value,
    read: (decision: Decision) => number,
  ) => {
    for (const [at, index] of softmaxAt.entries()) values[at] = read(all[index] as Decision);
    return values;
  };
  return {
    all,
    states,
    softmax: {
      states: softmaxAt.map((index) => states[index] as number),
      tokens: pick(new Int32Array(softmaxAt.length), ({ token }) => token),
      temperatures: pick(new Float32Array(softmaxAt.length), ({ span }) => span.sampling.temperature),
      legal: (at) => (all[softmaxAt[at] as number] as Decision).softmaxSupport(),
    },
    softmaxAt,
    othersAt: Int32Array.from(all.keys()).filter((index) => !all[index]?.isSoftmax),
  };
}
