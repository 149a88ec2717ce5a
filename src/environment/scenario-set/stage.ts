import type { z } from 'zod';
import { problemsOf } from '../../util/show-value.ts';
import { positionError } from '../errors.ts';

/** A JSON value. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export interface DrawnScenario<Scenario> {
  scenario: Scenario;
  /** Identifies the scenario: it has the same key in every epoch and every run. */
  key: string;
}

/** The rewards of the completed rollouts of one group of a drawn scenario. */
export interface ScenarioResult {
  key: string;
  rewards: readonly number[];
}

/** Gives scenarios in order to a single consumer. */
export interface ScenarioSource<Scenario> {
  /**
   * The next `count` scenarios; fewer only at the end of a source that does not repeat. Overlapping takes run one after
   * the other.
   */
  take(count: number, options?: { signal?: AbortSignal }): Promise<DrawnScenario<Scenario>[]>;
  /** The position of the source, as plain JSON. During a take: the position before that take. */
  position(): JsonValue;
  /** Goes to a saved position: the next take returns what it would have returned there. */
  seek(position: JsonValue): Promise<void>;
  /** Reports the rewards of drawn scenarios. Sources that do not learn from them ignore them. */
  observe(results: readonly ScenarioResult[]): void;
  /** Number of draws until the source ends, or until an endless source begins again; null if unknown. */
  readonly size: number | null;
}

export interface DifficultyOptions {
  /** Number of last groups that decide whether a scenario is skipped: all of them must have ended alike. Default 2. */
  groups?: number;
  /** A group is solved if its rewards are all equal and at least this. Default 1. */
  solvedAt?: number;
  /** A group is unsolved if its rewards are all equal and at most this. Default 0. */
  unsolvedAt?: number;
  /** Largest share of all draws that may be skipped. From 0 to below 1, default 0.5. */
  maxSkippedShare?: number;
  /** A skipped scenario is drawn anyway every n-th time that it comes up. At least 1, default 4. */
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
  /** The stage with only the scenarios that pass the test, if the scenarios are in memory. */
  readonly where?: (test: (drawn: DrawnScenario<Scenario>) => boolean) => Stage<Scenario>;
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
  readonly observe?: (results: readonly ScenarioResult[]) => void;
  readonly reports?: () => DifficultyReport[];
  /** Closes what the cursor holds open, such as a running generator. */
  readonly close?: () => Promise<void>;
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
    `The state of \`${kind}\` in the position does not have this version's format: ${problemsOf('state', state, read.error)}`,
  );
}
