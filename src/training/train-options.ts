import type { z } from 'zod';
import type { RlConfig } from '../contract/index.ts';
import type { Environment, ScenarioSource } from '../environment/index.ts';
import type { Evaluation } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type {
  ProgressOption,
  RunEndReason,
  RunListener,
  RunValidation,
  StepReport,
} from '../progress/index.ts';
import {
  type GroupStrategy,
  type RolloutCounts,
  type RolloutExecutor,
  rolloutDefaults,
} from '../rollout/index.ts';
import type { RunBudget, TokenPrices } from './budget.ts';
import type { StopWhen } from './early-stop.ts';
import { defaultJobTimeoutMs } from './follow-job.ts';
import { defaultLostJob, type LostJobOptions } from './lost-job.ts';
import type { ModelSource } from './model-source.ts';
import type { RunProgress } from './schedules.ts';
import type { SftExamples, SftSettings } from './sft-job.ts';

/** Which of a run's checkpoints stay on the service. */
export interface KeepCheckpoints {
  /** So many of the newest, at least 1. */
  newest: number;
  /** And so many of the best by their validation, if at most half of its rollouts failed. Default 0. */
  best?: number;
  /** Figure of the validation that says which are best. Default `reward`. */
  metric?: 'reward' | 'success';
}

export interface ValidationOptions<Schema extends z.ZodType> {
  scenarios: readonly z.input<Schema>[];
  /** The set is evaluated before the first and after the last step, and, where given, after every so many between. */
  everySteps?: number;
  /** Default 1. */
  rolloutsPerScenario?: number;
  /** Default 0: greedy. `agent` leaves it to the agent. */
  temperature?: number | 'agent';
}

/** Which of a run's checkpoints stay on the service. */
export interface KeepCheckpoints {
  /** So many of the newest, at least 1. */
  newest: number;
  /** And so many of the best by their validation, if at most half of its rollouts failed. Default 0. */
  best?: number;
  /** Figure of the validation that says which are best. Default `reward`. */
  metric?: 'reward' | 'success';
}

/** Supervised training before the first step. */
export interface WarmStart extends SftSettings {
  /**
   * Conversations, each ending in an assistant message, or a function of the run's seed that gives them. They are
   * read once, when the run begins: a run that is resumed does not ask for them again.
   */
  examples: SftExamples | ((run: { seed: number }) => SftExamples | Promise<SftExamples>);
}

export interface TrainSettings<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  /**
   * Each step takes `groupsPerStep` of them. An array is taken without repeats until all have been taken, in an order
   * that the seed decides, and then again in another; a source as it gives them. Where a source ends, so does the run.
   */
  scenarios: readonly z.input<Schema>[] | ScenarioSource<z.input<Schema>>;
  /**
   * Trains on conversations first, before the validation `before` and the first step: to teach the form of an answer,
   * or enough skill for rewards to differ. It is one job, and a run that was stopped or killed in it goes on with it
   * when it is resumed. Its events are those of the phase `warm start`. Default: none.
   */
  warmStart?: WarmStart;
  /** Steps of this run: each gathers groups and trains once. */
  steps: number;
  groupsPerStep: number;
  /** At least 2: rewards are compared within a group. */
  rolloutsPerGroup: number;
  /**
   * How many training jobs may lie between the checkpoint that a group samples from and the one that is trained on
   * it. Default 0: rollouts wait for the job. With S, the groups of the next S steps run while a job trains. The
   * bound is kept by when groups are admitted, so time in queues counts, no finished group is thrown away, and slow
   * rollouts train like quick ones; which group samples from which checkpoint follows from S alone.
   */
  maxStaleness?: number;
  /** Options of the training jobs, for all or by step (`step` counts from 0). Default: the service's own. */
  config?: RlConfig | ((progress: RunProgress) => RlConfig);
  /** Where rollouts run; it stays open. Default: in this thread, `concurrency` at a time. */
  executor?: RolloutExecutor;
  /** Rollouts in flight at a time, those of all steps together, where no `executor` says it. Default 256. */
  concurrency?: number;
  /** What becomes of groups that do not complete. Default: they train with 2 completed rollouts or more. */
  groupStrategy?: GroupStrategy;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  rolloutTimeoutMs?: number;
  /** Deadline of each reward in milliseconds. Default: that of the rollout, within which it is. */
  rewardTimeoutMs?: number;
  /** Deadline of each group in milliseconds, from its admission on: waiting for room counts. Default: none. */
  groupTimeoutMs?: number;
  /** Deadline in milliseconds of drawing a step's scenarios from a source. Default 600,000 (10 minutes). */
  scenarioTimeoutMs?: number;
  /** Deadline of one training job, queue and all, in milliseconds. Default 3,600,000 (1 hour). */
  jobTimeoutMs?: number;
  /**
   * What becomes of a training job whose answer was lost, on a service that knows no idempotency keys (a client of
   * `dialect: 'deployed'`), or which the service has forgotten. The model's checkpoints are looked at before anything
   * is asked for again. Default: the checkpoint is waited for, for 10 minutes; then the run stops with
   * a TrainingError (`training_job_unknown`), and a person decides with this option when it is resumed.
   */
  lostJob?: LostJobOptions;
  /** A call that cannot be trained on fails its rollout (`error`, the default) or is left out of it (`warn`). */
  onUnexpectedCall?: 'error' | 'warn';
  /** The order of scenarios and all sampling follow from it. Default 0. */
  seed?: number;
  validation?: ValidationOptions<Schema>;
  /**
   * Ends the run after a step, with reason `early_stop`, where it gives a string, which says why: see `earlyStop`.
   * It is asked after each step, and after the validation that belongs to it. Default: all steps are taken.
   */
  stopWhen?: StopWhen;
  /** Ends the run after the step in which it is used up, with reason `budget` and no last validation. Default: none. */
  budget?: RunBudget;
  /** Prices of tokens, for the costs in reports and for `budget.cost`. Default: costs are null. */
  prices?: TokenPrices;
  /**
   * Which of the run's checkpoints stay on the service: how many of the newest, at least 1, with how many of the best
   * by `validation` (of which at most half of the rollouts failed), or `all`. Those that rollouts still sample from stay as long, and those from before the run
   * always. Default 2.
   */
  keepCheckpoints?: number | 'all' | KeepCheckpoints;
  /** Must not exist, or be empty, unless the run in it is resumed. Default `runs/<ISO date>-<environment>`. */
  runDirectory?: string;
  /**
   * Goes on with the run in `runDirectory`, however it ended: with its data, finished groups, the job in flight, its
   * validations and its counts, to the same end as if it had not been interrupted. Groups of an unfinished step in which
   * no rollout completed, and scenarios of an unfinished validation with a rollout that failed, run anew. Options must be the same, but for
   * `steps`, which may grow, and for `concurrency`, `executor`, `scenarioTimeoutMs`, `jobTimeoutMs`, `lostJob`, `keepCheckpoints`, `budget` and
   * `stopWhen`. `true`: there must be a run. `auto`: begins one where there is none. Default false.
   */
  resume?: boolean | 'auto';
  /** Watches the run. What it throws is warned about once (`martingale_listener_failed`) and changes nothing. */
  onEvent?: RunListener;
  /**
   * How the run is shown while it goes on. Absent: a live view on standard error, where that is a terminal and not
   * that of a CI; else nothing. `true`: plain lines where there is no terminal. `'plain'`: plain lines on standard
   * error. `'json'`: a JSON object a line on standard output. `false`: nothing.
   */
  progress?: ProgressOption;
  /**
   * Stops the run cleanly: rollouts and the running job are cancelled, the directory stays readable. Calls of the
   * service that are better ended than cut, such as asking for a job, have 10 s for that; then the run returns.
   */
  signal?: AbortSignal;
}

export type TrainOptions<Schema extends z.ZodType, Outcome> = TrainSettings<Schema, Outcome> & ModelSource;

export interface TrainResult<Scenario = unknown> {
  reason: RunEndReason;
  /** What `stopWhen` said, or which part of the budget is used up; null for other reasons. */
  because: string | null;
  /** Absolute path. */
  runDirectory: string;
  /** Pinned to the newest checkpoint. */
  model: ModelHandle;
  /** Step of that checkpoint on the service. */
  finalStep: number;
  /**
   * The checkpoint that did best in validation by the metric of `keepCheckpoints` (default: mean reward), of those
   * that are still there; null without a validation of which at least half of the rollouts completed.
   */
  best: { model: ModelHandle; step: number; score: number } | null;
  /** One for each step that was finished, those before a resume included. */
  reports: StepReport[];
  /** Every validation in its order. */
  evaluations: RunValidation[];
  /**
   * Of all steps together, interrupted ones too. What a stop cancelled, and a resume runs again, counts as it then
   * ends.
   */
  counts: RolloutCounts;
  /** Tokens of all finished steps and validations, and their price. */
  usage: { promptTokens: number; sampledTokens: number; cost: number | null };
  /** The validation set before the first and after the last step; null where there is none, or it was stopped. */
  validation: { before: Evaluation<Scenario> | null; after: Evaluation<Scenario> | null };
  /** Wall-clock seconds, those before a resume included. */
  seconds: number;
}

/** What the options of `train` are without being given. Those that are not here have no value then. */
export const trainDefaults = {
  maxStaleness: 0,
  config: {},
  concurrency: rolloutDefaults.concurrency,
  groupStrategy: rolloutDefaults.groupStrategy,
  rolloutTimeoutMs: rolloutDefaults.timeoutMs,
  scenarioTimeoutMs: 600_000,
  jobTimeoutMs: defaultJobTimeoutMs,
  lostJob: defaultLostJob,
  onUnexpectedCall: rolloutDefaults.onUnexpectedCall,
  seed: rolloutDefaults.seed,
  keepCheckpoints: 2,
  resume: false,
} as const satisfies Partial<TrainSettings<z.ZodType, unknown>>;
