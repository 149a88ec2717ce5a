import type { z } from 'zod';
import { positionError } from '../errors.ts';
import type { DrawnScenario, JsonValue, ScenarioResult } from './scenario-source.ts';

export interface DifficultyOptions {
  /** Number of last groups that decide whether a scenario is skipped: all of them must have ended alike. Default 2. */
  groups?: number;
  /** A group is solved if its rewards are all equal and at least this. Default 1. */
  solvedAt?: number;
  /** A group is unsolved if its rewards are all equal and at most this. Default 0. */
  unsolvedAt?: number;
  /** Largest share of all draws that may be skipped. From 0 to below 1, default 0.5. */
  maxSkippedShare?: number;
  /** A skipped scenario is given every n-th time that it comes up. At least 1, default 4. */
  retryEvery?: number;
  /** Smallest number of scenarios in play; below it nothing is skipped. Default 1. */
  floor?: number;
  /** Number of scenarios whose results are kept; the least recently drawn are forgotten. Default 100,000. */
  remember?: number;
}

/** Counts of `.byDifficulty()`. They leave out scenarios that were never drawn. */
export interface DifficultyReport {
  /** Of the set: '' for a set of its own, `name/` for a part of a mix. */
  name: string;
  /** Scenarios whose last groups were all solved; all unsolved; all equal in between. */
  alwaysSolved: number;
  neverSolved: number;
  alwaysEqual: number;
  /** The others: their rewards differ, or not enough is known. */
  inPlay: number;
  /** Scenarios that came up, given and skipped. */
  draws: number;
  skipped: number;
  bounds: Required<DifficultyOptions>;
}

/** Whether one pass over a stage ends: `unknown` for generators, which only show it by running. */
export type Extent = 'finite' | 'unknown' | 'infinite';

/** One piece of a scenario set's pipeline: what to draw from, not where the drawing stands. */
export interface Stage<Scenario> {
  readonly extent: Extent;
  /** Draws of one pass, where that is known without running it. */
  readonly size: number | null;
  /** Whether results of drawn scenarios change what is drawn. A stage like that cannot be begun anew each epoch. */
  readonly learns: boolean;
  /** What a position must agree with: kinds, seeds and sizes, of the stages below too. */
  describe(): StageDescription;
  /** Begins a pass; `epoch` counts them from 0. */
  open(epoch: number): Cursor<Scenario>;
}

export type StageDescription = { readonly kind: string; readonly [name: string]: JsonValue };

/** Where the drawing from one stage stands, in one pass. */
export interface Cursor<Scenario> {
  /** Null at the end of the pass, and after it. */
  next(): Promise<DrawnScenario<Scenario> | null>;
  /** All that the next draws depend on. It is not changed by draws that follow. */
  state(): JsonValue;
  /** Brings the cursor to a state, wherever it stands. @throws ScenarioError (`scenario_position_refused`) */
  restore(state: unknown): Promise<void>;
  observe(results: readonly ScenarioResult[]): void;
  reports(): DifficultyReport[];
  /** Ends what the cursor holds open. */
  close(): Promise<void>;
}

/** @throws ScenarioError (`scenario_position_refused`) where a saved state does not have the shape that the stage writes. */
export function readState<Schema extends z.ZodType>(
  kind: string,
  schema: Schema,
  state: unknown,
): z.output<Schema> {
  const read = schema.safeParse(state);
  if (read.success) return read.data;
  throw positionError(
    `The state of \`${kind}\` in the position is not as this version writes it: ${read.error.message}`,
  );
}

/** Lets timers and requests have their turn during long runs of draws that nobody sees. */
export function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Unseen draws between two breaths. */
export const drawsPerBreath = 1000;
