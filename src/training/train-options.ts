import type { z } from 'zod';
import type { RlConfig, SftExample } from '../contract/index.ts';
import type { Environment, ScenarioSource } from '../environment/index.ts';
import type { Evaluation, TokenPrices } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type {
  ProgressOption,
  RunEndReason,
  RunListener,
  RunValidation,
  StepReport,
} from '../progress/index.ts';
import {
  type RolloutCounts,
  type RolloutSettings,
  rolloutDefaults,
  type SeatModels,
} from '../rollout/index.ts';
import type { RunBudget } from './budget.ts';
import type { StopWhen } from './early-stop.ts';
import { defaultJobTimeoutMs } from './follow-job.ts';
import { defaultLostJob, type LostJobOptions } from './lost-job.ts';
import type { ModelSource } from './model-source.ts';
import type { RunProgress } from './schedules.ts';
import type { Teacher } from './teacher.ts';

/** Which checkpoints of a run to keep on the service. */
export interface KeepCheckpoints {
  /** Number of newest checkpoints to keep, at least 1. */
  newest: number;
  /**
   * Number of best checkpoints to keep, by validations in which at most half of the rollouts failed.
   *
   * @default 0
   */
  best?: number;
  /**
   * Metric of the validation that ranks the checkpoints.
   *
   * @default 'reward'
   */
  metric?: 'reward' | 'success';
}

export interface ValidationOptions<Schema extends z.ZodType> {
  scenarios: readonly z.input<Schema>[];
  /**
   * Also validates after every this many steps.
   *
   * @default only before the first and after the last step
   * @example 10
   */
  everySteps?: number;
  /**
   * Rollouts of each scenario.
   *
   * @default 1
   * @example 4
   */
  rolloutsPerScenario?: number;
  /**
   * Sampling temperature. `agent`: the agent decides.
   *
   * @default 0 (greedy)
   * @example 'agent'
   */
  temperature?: number | 'agent';
  /**
   * For an environment with seats: who plays which seat.
   *
   * @default a second model that trains plays its own seat, and the model of the run plays all others
   * @example { buyer: opponents({ players: [{ model: easyBuyer }] }) }
   */
  seats?: SeatModels;
}

/** Conversations, each ending in an assistant message. */
export type SftExamples = Iterable<SftExample> | AsyncIterable<SftExample>;

/** Settings of supervised training. */
export interface SftSettings {
  /**
   * Conversations per gradient step.
   *
   * @default 'auto': the service decides
   * @example 16
   */
  batchSize?: number | 'auto';
  /**
   * One value, or one for each batch.
   *
   * @default the base model's
   * @example 1e-4
   */
  learningRate?: number | number[];
  /**
   * Which assistant messages are trained on: all, or only the last, with the others as context.
   *
   * @default 'all'
   */
  assistantTurns?: 'all' | 'last';
}

/** Supervised training before the first step. */
export interface WarmStart extends SftSettings {
  /**
   * Conversations, each ending in an assistant message, or a function of the run's seed that returns them. They are
   * read once, when the run begins, and not again on resume.
   */
  examples: SftExamples | ((run: { seed: number }) => SftExamples | Promise<SftExamples>);
}

export interface TrainSettings<Schema extends z.ZodType, Outcome> extends Omit<RolloutSettings, 'timeoutMs'> {
  environment: Environment<Schema, Outcome>;
  /**
   * Each step takes `groupsPerStep` scenarios. An array is shuffled with the seed, and shuffled again each time all its
   * scenarios have been taken. A source decides its own order, and the run ends when the source does.
   *
   * @example [{ question: '2 + 2', answer: 4 }]
   */
  scenarios: readonly z.input<Schema>[] | ScenarioSource<z.input<Schema>>;
  /**
   * Trains on conversations before the first validation and the first step, to teach the form of an answer, or enough
   * skill for rewards to differ. It is one job, and resuming a run that was stopped or killed during it continues it.
   * Its events have the phase `warm start`.
   *
   * @default none
   * @example { examples: conversations, batchSize: 16 }
   */
  warmStart?: WarmStart;
  /**
   * Number of steps. Each runs its groups and trains once.
   *
   * @example 40
   */
  steps: number;
  /**
   * Number of scenarios of a step. Each gets a group of rollouts.
   *
   * @example 8
   */
  groupsPerStep: number;
  /**
   * At least 2: rewards are compared within a group. With a `teacher` at least 1.
   *
   * @example 8
   */
  rolloutsPerGroup: number;
  /**
   * Maximum number of training jobs between the checkpoint that a group samples from and the one that is trained on it.
   * With S, the groups of the next S steps run while a job trains. The bound decides when groups are admitted, so no
   * finished group is discarded and slow rollouts train like quick ones. Which checkpoint a group samples from depends
   * on S alone.
   *
   * @default 0: rollouts wait for the job
   * @example 1
   */
  maxStaleness?: number;
  /**
   * Options of the training jobs, for all steps or by step (`step` counts from 0).
   *
   * @default the service's
   * @example ({ step, steps }) => ({ learning_rate: 1e-3 * (1 - step / steps) })
   */
  config?: RlConfig | ((progress: RunProgress) => RlConfig);
  /**
   * A model to learn from, token by token, on the model's own rollouts: each sampled token's advantage grows with how much
   * likelier it is for the teacher than for the model. Rewards count too, if there are any; groups whose rewards are
   * equal train as well, and a group may be a single rollout. `klReference` of a report is the distance to the teacher.
   *
   * @default none
   * @example { model: 'team/desk/large:step40', weight: 1 }
   */
  teacher?: Teacher;
  /**
   * Deadline of one rollout and its rewards, in milliseconds.
   *
   * @default 600_000 (10 minutes)
   * @example 60_000
   */
  rolloutTimeoutMs?: number;
  /**
   * Deadline of each reward, in milliseconds.
   *
   * @default `rolloutTimeoutMs`, which also limits a rollout with its rewards
   * @example 10_000
   */
  rewardTimeoutMs?: number;
  /**
   * Deadline for drawing the scenarios of a step, in milliseconds.
   *
   * @default 600_000 (10 minutes)
   * @example 30_000
   */
  scenarioTimeoutMs?: number;
  /**
   * Deadline of one training job, including its time in the queue, in milliseconds.
   *
   * @default 3_600_000 (1 hour)
   * @example 600_000
   */
  jobTimeoutMs?: number;
  /**
   * What to do if the answer to a job's request is lost on a service without idempotency keys (a client with
   * `dialect: 'deployed'`), or the service has forgotten the job. The model's checkpoints are always checked before a
   * job is requested again.
   *
   * @default to wait 10 minutes for the checkpoint and then to stop with a TrainingError (`training_job_unknown`); a person
   * decides with this option when resuming the run
   * @example { waitMs: 60_000, decision: 'ask_again' }
   */
  lostJob?: LostJobOptions;
  /**
   * Determines the order of scenarios and all sampling.
   *
   * @default 0
   * @example 7
   */
  seed?: number;
  /**
   * Measures the policy on scenarios that it is not trained on, before the first and after the last step.
   *
   * @default none
   * @example { scenarios: heldOut, everySteps: 10 }
   */
  validation?: ValidationOptions<Schema>;
  /**
   * Called after each step and its validation. If it returns a string, which says why, the run ends with reason
   * `early_stop`: see `earlyStop`.
   *
   * @default all steps run
   * @example earlyStop({ metric: 'validation_success', goal: 0.95 })
   */
  stopWhen?: StopWhen;
  /**
   * Ends the run after the step in which a limit is reached, with reason `budget`, without a last validation.
   *
   * @default none
   * @example { minutes: 30 }
   */
  budget?: RunBudget;
  /**
   * Token prices, for costs in reports and for `budget.cost`.
   *
   * @default costs are null
   * @example { promptTokensPerMillion: 0.1, sampledTokensPerMillion: 0.4 }
   */
  prices?: TokenPrices;
  /**
   * Which checkpoints of the run to keep on the service: a number of newest ones (at least 1), also a number of best
   * ones by `validation`, or `all`. Checkpoints that rollouts still sample from stay until they do not, and checkpoints
   * from before the run always stay.
   *
   * @default 2
   * @example { newest: 2, best: 1, metric: 'success' }
   */
  keepCheckpoints?: number | 'all' | KeepCheckpoints;
  /**
   * Must not exist or be empty, unless `resume` is set.
   *
   * @default `runs/<ISO date>-<environment>`
   * @example 'runs/first'
   */
  runDirectory?: string;
  /**
   * Continues the run in `runDirectory`, no matter how it ended, with its data, finished groups, job in flight,
   * validations and counts. The result is the same as without the interruption. In an unfinished step, groups without a
   * completed rollout run again; in an unfinished validation, scenarios with a failed rollout do. Options must be the
   * same, except `steps`, which may grow, and `concurrency`, `executor`, `scenarioTimeoutMs`, `jobTimeoutMs`,
   * `lostJob`, `keepCheckpoints`, `budget` and `stopWhen`. `true`: there must be a run. `auto`: starts a run if there
   * is none.
   *
   * @default false
   * @example 'auto'
   */
  resume?: boolean | 'auto';
  /**
   * Receives the events of the run. Its errors do not affect the run; the first becomes a warning
   * (`martingale_listener_failed`).
   *
   * @default none
   * @example (event) => console.log(event.type)
   */
  onEvent?: RunListener;
  /**
   * How progress is shown. `true`: a live view on standard error if that is a terminal, else plain lines. `'plain'`:
   * plain lines on standard error. `'json'`: one JSON object per line on standard output. `false`: nothing.
   *
   * @default a live view on standard error if that is a terminal and not in CI, else plain lines
   * @example 'plain'
   */
  progress?: ProgressOption;
  /**
   * Stops the run cleanly: cancels rollouts and the running job; the directory stays readable. Calls that are better
   * not interrupted, such as the request of a job, get 10 s to finish; then the run returns.
   *
   * @default none
   * @example AbortSignal.timeout(3_600_000)
   */
  signal?: AbortSignal;
}

export type TrainOptions<Schema extends z.ZodType, Outcome> = TrainSettings<Schema, Outcome> & ModelSource;

export interface TrainResult<Scenario = unknown> {
  reason: RunEndReason;
  /**
   * The text that `stopWhen` returned, which limit of the budget was reached, or that a set of scenarios ended before the
   * last step; null for other reasons.
   */
  because: string | null;
  /** Absolute path. */
  runDirectory: string;
  /** Pinned to the newest checkpoint. */
  model: ModelHandle;
  /** Step of that checkpoint. */
  finalStep: number;
  /** The further models that trained in a seat, pinned to their newest checkpoints, by seat. */
  learners: Readonly<Record<string, ModelHandle>>;
  /**
   * The remaining checkpoint with the best validation by the metric of `keepCheckpoints` (default: mean reward). Null
   * if there is no validation in which at least half of the rollouts completed.
   */
  best: { model: ModelHandle; step: number; score: number } | null;
  /** One for each finished step, including steps before a resume. */
  reports: StepReport[];
  /** All validations, in order. */
  evaluations: RunValidation[];
  /**
   * Counts over all steps, including interrupted ones. A rollout that was cancelled by a stop and runs again on resume
   * counts once, with its final status.
   */
  counts: RolloutCounts;
  /** Tokens of all finished steps and validations, and their cost. */
  usage: { promptTokens: number; sampledTokens: number; cost: number | null };
  /**
   * The validations before the first and after the last step; null if there is none, or it was stopped. Their trajectories
   * have messages and figures; prompts and log-probabilities of their tokens are in the run directory.
   */
  validation: { before: Evaluation<Scenario> | null; after: Evaluation<Scenario> | null };
  /** Wall-clock seconds, including those before a resume. */
  seconds: number;
}

const { timeoutMs: rolloutTimeoutMs, groupTimeoutMs: _, ...sharedDefaults } = rolloutDefaults;

/** Defaults of the options of `train`. Options that are not listed have no default. */
export const trainDefaults = {
  maxStaleness: 0,
  config: {},
  ...sharedDefaults,
  rolloutTimeoutMs,
  scenarioTimeoutMs: 600_000,
  jobTimeoutMs: defaultJobTimeoutMs,
  lostJob: defaultLostJob,
  keepCheckpoints: 2,
  resume: false,
} as const satisfies Partial<TrainSettings<z.ZodType, unknown>>;
