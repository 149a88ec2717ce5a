import type { z } from 'zod';
import type { RlConfig } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';
import type { Evaluation } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { Books } from '../rollout/index.ts';
import type { ModelSource } from './model-source.ts';
import type { RunListener, StepReport } from './run-event.ts';

export interface ValidationOptions<Schema extends z.ZodType> {
  scenarios: readonly z.input<Schema>[];
  /** The set is evaluated before the first and after the last step, and, where given, after every so many between. */
  everySteps?: number;
  /** Default 1. */
  rolloutsPerScenario?: number;
  /** Default 0: greedy. `agent` leaves it to the agent. */
  temperature?: number | 'agent';
}

export interface TrainSettings<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  /**
   * Each step takes `groupsPerStep` of them, without repeats until all have been taken, in an order that the seed
   * decides.
   */
  scenarios: readonly z.input<Schema>[];
  /** Steps of this run: each gathers groups and trains once. */
  steps: number;
  groupsPerStep: number;
  /** At least 2: rewards are compared within a group. */
  rolloutsPerGroup: number;
  /** Options of the training jobs, for all or by step (`step` counts from 0). Default: the service's own. */
  config?: RlConfig | ((progress: { step: number; steps: number }) => RlConfig);
  /** Rollouts in flight at a time. Default 256. */
  concurrency?: number;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  rolloutTimeoutMs?: number;
  /** Deadline of one training job, queue and all, in milliseconds. Default 3,600,000 (1 hour). */
  jobTimeoutMs?: number;
  /** A call that cannot be trained on fails its rollout (`error`, the default) or is left out of it (`warn`). */
  onUnexpectedCall?: 'error' | 'warn';
  /** The order of scenarios and all sampling follow from it. Default 0. */
  seed?: number;
  validation?: ValidationOptions<Schema>;
  /**
   * How many of the run's newest checkpoints stay on the service, at least 1, or `all`. Checkpoints from before the
   * run always stay. Default 2.
   */
  keepCheckpoints?: number | 'all';
  /** Must not exist, or be empty. Default `runs/<ISO date>-<environment>`. */
  runDirectory?: string;
  onEvent?: RunListener;
  /** Stops the run cleanly: rollouts and the running job are cancelled, the directory stays readable. */
  signal?: AbortSignal;
}

export type TrainOptions<Schema extends z.ZodType, Outcome> = TrainSettings<Schema, Outcome> & ModelSource;

export interface TrainResult<Scenario = unknown> {
  reason: 'finished' | 'stopped';
  /** Absolute path. */
  runDirectory: string;
  /** Pinned to the newest checkpoint. */
  model: ModelHandle;
  /** Step of that checkpoint on the service. */
  finalStep: number;
  /** One for each step that was finished. */
  reports: StepReport[];
  /** Of all steps together, an interrupted one too. */
  books: Books;
  /** The validation set before the first and after the last step; null where there is none, or it was stopped. */
  validation: { before: Evaluation<Scenario> | null; after: Evaluation<Scenario> | null };
  /** Wall-clock seconds. */
  seconds: number;
}
