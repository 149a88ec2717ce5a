import type { TrajectoryBody } from '../contract/index.ts';
import type { FailureKind, RolloutCounts } from '../rollout/index.ts';
import type { ToolUses } from '../trajectory/index.ts';

/** Another version than the run was begun with, which is told and changes nothing. Of `engine` it is the name. */
export interface VersionChange {
  of: 'martingale' | 'node' | 'engine';
  was: string;
  is: string;
}

/** Mean reward and share of successes of an evaluation; `success` is the metric of that name, else null. */
export interface EvaluationScore {
  reward: number;
  success: number | null;
}

/** A validation of a run, in figures. */
export interface RunValidation {
  /** `before`, `after-step-N` or `after`. */
  name: string;
  /** Steps that had been finished. */
  step: number;
  /** Pinned name of what was evaluated. */
  policy: string;
  /** Step of that checkpoint on the service. */
  checkpoint: number;
  /** Mean reward, and share of successes where the environment has the metric `success`. */
  reward: number;
  success: number | null;
  /** Share of its rollouts that did not complete: they are in no mean. */
  failedShare: number;
  usage: { promptTokens: number; sampledTokens: number };
}

/** What the rollouts within each group of a step have in common: why groups carry no signal. */
export interface GroupComparison {
  /** Groups with two or more completed rollouts. Only these can be compared, and only these are counted below. */
  compared: number;
  /** Groups whose rewards are all equal. */
  equalRewards: number;
  /** Groups all of whose rollouts succeeded, and none of whose did; null without the metric `success`. */
  solved: number | null;
  unsolved: number | null;
  /** Groups whose rollouts sampled the same replies, token for token. */
  alike: number;
  /** Groups whose calls were all sampled at temperature 0, or with top_k 1. */
  greedy: number;
  /** Groups whose calls all came with a seed that the agent had set. */
  agentSeeds: number;
  /** The rewards of groups with equal rewards, in ascending order without repeats: at most 5 of them. */
  equalRewardValues: number[];
  /** Smallest and largest reward of the step's completed rollouts. */
  rewardRange: { min: number; max: number };
}

/** The counts and figures of one step. `dispatched` = `completed` + `failed` + `cancelled`, always. */
export interface StepReport {
  /**
   * Counted from the run's first, which is 0. A step without a signal makes no checkpoint, so the model's step may be
   * lower: `:step33` after 40 steps.
   */
  step: number;
  steps: number;
  /** Mean reward of the completed rollouts. */
  reward: number;
  /** Mean of the metric `success`, where the environment has it. */
  success: number | null;
  dispatched: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Groups that the job could learn from, out of `groups`; where no job says it, those whose rewards differ. */
  groupsWithSignal: number;
  groups: number;
  /** What rollouts of the same group have in common; null in reports of versions that did not compare them. */
  comparison: GroupComparison | null;
  /** Largest |log p_trainer - log p_sampler| over the step's tokens. */
  logprobDifference: number | null;
  /** Population standard deviation of the completed rollouts' rewards. */
  rewardDeviation: number;
  /** Mean of log p_sampler - log p_trainer over the step's tokens (KL divergence, estimator k1), in nats. */
  klSampler: number | null;
  /** Share of the step's tokens whose importance ratio was clipped, masked or capped. */
  clippedShare: number | null;
  /** Checkpoints between what sampled a group and what was trained, queue time included: mean and largest. */
  staleness: { mean: number; max: number };
  /** Sampled tokens of a completed rollout: mean and largest. */
  replyTokens: { mean: number; max: number };
  /** Share of the completed rollouts' four-token sequences that stood earlier in the same reply. */
  repeatedShare: number;
  /** Failed and cancelled rollouts by the code of their reason. */
  failures: Record<string, number>;
  /** Completed rollouts by what ended their conversation, where it is known. */
  stopReasons: Record<string, number>;
  /** What came of the calls of each tool, in all rollouts: results that the harness has seen. */
  tools: Record<string, ToolUses>;
  /** Rollouts with a call that met the end of the model's context. */
  contextOverflows: number;
  /** Rollouts whose agent returned while calls were still in flight. */
  callsInFlight: number;
  /** Requests of rollouts to the APIs of models that are not recorded, by host and path. */
  otherModels: Record<string, number>;
  /** Whether calls were credited with rewards of their own, and whether the job said that it used them. */
  credit: 'none' | 'used' | 'not_confirmed';
  /** Prompt and sampled tokens of all rollouts, failed ones too; the price in the unit of the run's `prices`. */
  usage: { promptTokens: number; sampledTokens: number; cost: number | null };
  /** Means of the completed rollouts' metrics, by name. */
  metrics: Record<string, number>;
  /** Mean entropy, in nats, of the sampled decisions. */
  entropy: number | null;
  gradientNorm: number | null;
  loss: number | null;
  /** Mean of log p_policy - log p_reference over the step's tokens, in nats; null without a KL penalty. */
  klReference: number | null;
  /** Sampled tokens over the wall-clock seconds of the rollouts; those of a run before its resume do not count. */
  tokensPerSecond: number;
  /** Wall-clock seconds: of the step, and of its phases. In a pipelined run those of steps overlap. */
  seconds: number;
  /** Longest time in milliseconds that the event loop of this process was held since the step before. */
  loopDelayMs: number;
  phases: { rollouts: number; log: number; training: number; checkpoint: number };
  /** Pinned name of the policy the rollouts sampled from. */
  policy: string;
}

/**
 * `finished`: all steps. `stopped`: by its signal. `early_stop`: `stopWhen` said so. `budget`: what it may use is used
 * up.
 */
export type RunEndReason = 'finished' | 'stopped' | 'early_stop' | 'budget';

/** What a run tells whoever watches it, in order. */
export type RunEvent =
  | {
      type: 'run_started';
      runDirectory: string;
      /** Pinned to the checkpoint that the run goes on from. */
      model: string;
      /**
       * Step of the checkpoint that the run began with, before a warm start: above 0 where the model had been trained
       * by others, or by an earlier run.
       */
      fromStep: number;
      steps: number;
      groupsPerStep: number;
      rolloutsPerGroup: number;
      /** Steps that are finished already, where the run is resumed. */
      finishedSteps?: number;
      /** Where the run is resumed: what it was begun with another version of. */
      changedVersions?: VersionChange[];
      /** Reports of those steps, in order. The file of events leaves them out: `metrics.jsonl` has them. */
      finishedReports?: StepReport[];
    }
  /**
   * A named stretch beside the steps: the warm start, or an evaluation (`evaluation before`, `evaluation after-step-N`,
   * `evaluation after`), whose rollouts `done` counts up to `total`.
   */
  | { type: 'phase'; phase: string; done: number; total: number | null; metrics: Record<string, number> }
  | {
      type: 'evaluated';
      name: string;
      policy: string;
      score: EvaluationScore;
      scenarios: number;
      /** Scenarios with a completed rollout, whose means the score is made of. */
      scored: number;
      /** Of its rollouts. */
      counts: RolloutCounts;
      examples: TrajectoryBody[];
    }
  | { type: 'rollouts'; step: number; done: number; total: number }
  | {
      type: 'job';
      step: number;
      status: 'submitted' | 'running' | 'ended';
      gradientSteps: number;
      total: number | null;
    }
  | ({ type: 'step' } & StepReport)
  /**
   * Why rollouts of a step or a validation failed: kinds of failure that the run has not told of before. `name` is that
   * of their file in `trajectories/`: `step-0003`, `before`. `step` is counted from the run's first, which is 0;
   * absent for a validation.
   */
  | { type: 'failures'; name: string; step?: number; kinds: FailureKind[] }
  /** Something that a person should look at; see `diagnose`. */
  | ({ type: 'alarm' } & Alarm)
  | {
      type: 'run_ended';
      reason: RunEndReason;
      /** What `stopWhen` said, or which part of the budget is used up; absent for other reasons. */
      because?: string;
      seconds: number;
      runDirectory: string;
    };

export type RunListener = (event: RunEvent) => void;

/** What an alarm is about. */
export type AlarmKind =
  | 'collapse'
  | 'no_signal'
  | 'greedy_sampling'
  | 'tool_errors'
  | 'context_overflow'
  | 'calls_in_flight'
  | 'other_models'
  | 'reward_up_success_flat'
  | 'reward_up_validation_down'
  | 'repeated_text'
  | 'wrong_model'
  | 'sampler_trainer_mismatch'
  | 'clipped'
  | 'stale'
  | 'failures'
  | 'event_loop_held'
  | 'credit_unused';

/**
 * Why groups have no signal.
 *
 * - `solved`: all rollouts succeed. `unsolved`: none does.
 * - `always_or_never`: each scenario always comes out the same, some well and some badly.
 * - `constant_reward`: every rollout gets the same reward.
 * - `replies_alike`: the rollouts of a group sample the same replies.
 * - `reward_ignores_replies`: replies differ within groups, and rewards only between scenarios.
 * - `not_compared`: too few rollouts complete for groups to have two of them.
 * - `unknown`: the reports do not tell; those of earlier versions do not.
 */
export type NoSignalCause =
  | 'solved'
  | 'unsolved'
  | 'always_or_never'
  | 'constant_reward'
  | 'replies_alike'
  | 'reward_ignores_replies'
  | 'not_compared'
  | 'unknown';

/** Something in a run that a person should look at. */
export interface Alarm {
  kind: AlarmKind;
  /** Of `no_signal`: why there is none. */
  cause?: NoSignalCause;
  /** Step whose report raised it. */
  step: number;
  /** What was seen, with the figures. */
  message: string;
  /** What to look at, and what usually helps. */
  lookAt: string;
}
