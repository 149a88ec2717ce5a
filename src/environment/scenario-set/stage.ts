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

/** Counts of `.byDifficulty()`, over the scenarios that were drawn at least once. */
export interface DifficultyReport {
  /** Name of the set: `name/` for a part of a mix, else empty. */
  name: string;
  /** Scenarios whose last groups were all solved, all unsolved, or all equal in between. */
  alwaysSolved: number;
  neverSolved: number;
  alwaysEqual: number;
  /** All other scenarios: their rewards differ, or too few groups are known. */
  inPlay: number;
  /** Scenarios drawn so far, including skipped ones. */
  draws: number;
  skipped: number;
  bounds: Required<DifficultyOptions>;
}

/** Whether one pass over a stage ends; `unknown` for generators. */
export type Extent = 'finite' | 'unknown' | 'infinite';

/** One step of a scenario set's pipeline. It has no position; its cursors do. */
export interface Stage<Scenario> {
  readonly extent: Extent;
  /** Number of draws of one pass; null if that is unknown before running it. */
  readonly size: number | null;
  /** Whether results of drawn scenarios change later draws. `.repeat()` refuses such a stage. */
  readonly learns: boolean;
  /** Kinds, seeds and sizes of this stage and the stages below. A position fits only an equal description. */
  describe(): StageDescription;
  /** Begins a pass; `epoch` counts them from 0. */
  open(epoch: number): Cursor<Scenario>;
}

export type StageDescription = { readonly kind: string; readonly [name: string]: JsonValue };

/** A position in one pass over a stage. */
export interface Cursor<Scenario> {
  /** Null at the end of the pass, and after it. */
  next(): Promise<DrawnScenario<Scenario> | null>;
  /** Everything that the next draws depend on. Later draws do not change the returned value. */
  state(): JsonValue;
  /** Moves the cursor to a saved state. @throws ScenarioError (`scenario_position_refused`) */
  restore(state: unknown): Promise<void>;
  observe(results: readonly ScenarioResult[]): void;
  reports(): DifficultyReport[];
  /** Closes what the cursor holds open, such as a running generator. */
  close(): Promise<void>;
}

/** @throws ScenarioError (`scenario_position_refused`) if a saved state does not fit the stage's schema. */
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

/** Gives the event loop a tick during many draws in a row. */
export function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Draws in a row before a `breathe()`. */
export const drawsPerBreath = 1000;
