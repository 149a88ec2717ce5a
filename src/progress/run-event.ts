import type { TrajectoryBody } from '../contract/index.ts';
import type { FailureKind, RolloutCounts } from '../rollout/index.ts';
import type { ToolUses } from '../trajectory/index.ts';

/** A version that changed since the run began. It is only reported. For `engine` it is the engine's name. */
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

/** The numbers of a validation. */
export interface RunValidation {
  /** `before`, `after-step-N` or `after`. */
  name: string;
  /** Finished steps at that time. */
  step: number;
  /** Pinned name of the evaluated model. */
  policy: string;
  /** Step of that checkpoint on the service. */
  checkpoint: number;
  /** Mean reward, and mean of the metric `success`; null without that metric. */
  reward: number;
  success: number | null;
  /** Share of rollouts that did not complete. The means leave them out. */
  failedShare: number;
  usage: { promptTokens: number; sampledTokens: number };
}

/** What the rollouts of each group of a step have in common. It shows why groups have no signal. */
export interface GroupComparison {
  /** Groups with two or more completed rollouts. The counts below are of these groups only. */
  compared: number;
  /** Groups whose rewards are all equal. */
  equalRewards: number;
  /** Groups in which all rollouts succeeded (`solved`), and in which none did; null without the metric `success`. */
  solved: number | null;
  unsolved: number | null;
  /** Groups whose rollouts sampled the same replies, token for token. */
  alike: number;
  /** Groups whose calls were all sampled at temperature 0, or with top_k 1. */
  greedy: number;
  /** Groups in which the agent set a seed for every call. */
  agentSeeds: number;
  /** Distinct rewards of the groups with equal rewards, ascending, at most 5. */
  equalRewardValues: number[];
  /** Smallest and largest reward of the step's completed rollouts. */
  rewardRange: { min: number; max: number };
}

/** The counts and numbers of one step. `dispatched` is always `completed` + `failed` + `cancelled`. */
export interface StepReport {
  /**
   * Number of the step in the run, from 0. A step without a signal makes no checkpoint, so the model's step may be
   * lower: `:step33` after 40 steps.
   */
  step: number;
  steps: number;
  /** Mean reward of the completed rollouts. */
  reward: number;
  /** Mean of the metric `success`; null without it. */
  success: number | null;
  dispatched: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Groups that the job could learn from, of `groups`. If no job reports it: groups whose rewards differ. */
  groupsWithSignal: number;
  groups: number;
  /** What the rollouts of each group have in common; null in reports of earlier versions. */
  comparison: GroupComparison | null;
  /** Largest |log p_trainer - log p_sampler| over the step's tokens. */
  logprobDifference: number | null;
  /** Population standard deviation of the completed rollouts' rewards. */
  rewardDeviation: number;
  /**
   * Estimate of KL(sampler || trainer) in nats: mean of exp(d) - 1 - d over the step's tokens, where d is log p_trainer -
   * log p_sampler. Never negative.
   */
  klSampler: number | null;
  /** Share of the step's tokens whose importance ratio was clipped, masked or capped. */
  clippedShare: number | null;
  /** Checkpoints between the one that sampled a group and the one trained on it, queue time included: mean, largest. */
  staleness: { mean: number; max: number };
  /** Sampled tokens of a completed rollout: mean and largest. */
  replyTokens: { mean: number; max: number };
  /** Share of the completed rollouts' four-token sequences that occurred earlier in the same reply. */
  repeatedShare: number;
  /** Failed and cancelled rollouts by the code of their reason. */
  failures: Record<string, number>;
  /** Completed rollouts by stop reason, if known. */
  stopReasons: Record<string, number>;
  /** Results of each tool's calls in all rollouts, as far as the harness has seen them. */
  tools: Record<string, ToolUses>;
  /** Rollouts with a call that reached the end of the model's context. */
  contextOverflows: number;
  /** Rollouts whose agent returned while calls were still in flight. */
  callsInFlight: number;
  /**
   * Histories of all rollouts that began because the chat template rewrote the conversation they continue: Qwen3's drops
   * earlier reasoning. Each is trained as a sequence of its own.
   */
  rewrittenHistories: number;
  /** Requests of rollouts to model APIs that are not recorded, by host and path. */
  otherModels: Record<string, number>;
  /** Whether calls had credit of their own, and whether the job confirmed that it used it. */
  credit: 'none' | 'used' | 'not_confirmed';
  /** Prompt and sampled tokens of all rollouts, including failed ones; cost in the currency of the run's `prices`. */
  usage: { promptTokens: number; sampledTokens: number; cost: number | null };
  /** Means of the completed rollouts' metrics, by name. */
  metrics: Record<string, number>;
  /** Mean entropy of the sampled decisions, in nats. */
  entropy: number | null;
  gradientNorm: number | null;
  loss: number | null;
  /** Mean of log p_policy - log p_reference over the step's tokens, in nats; null without a KL penalty. */
  klReference: number | null;
  /** Sampled tokens per wall-clock second of the rollouts. Rollouts before a resume do not count. */
  tokensPerSecond: number;
  /** Wall-clock seconds of the step. Steps of a pipelined run overlap. */
  seconds: number;
  /** Longest block of this process's event loop since the previous step, in milliseconds. */
  loopDelayMs: number;
  /** Wall-clock seconds of each phase. `log`: how long the step waited for its log after the training. */
  phases: { rollouts: number; log: number; training: number; checkpoint: number };
  /** Pinned name of the policy that the rollouts sampled from. */
  policy: string;
}

/**
 * `finished`: all steps are done. `stopped`: its signal was aborted. `early_stop`: `stopWhen` ended it. `budget`: its
 * budget is used up.
 */
export type RunEndReason = 'finished' | 'stopped' | 'early_stop' | 'budget';

/** An event of a run. Listeners get the events in order. */
export type RunEvent =
  | {
      type: 'run_started';
      runDirectory: string;
      /** Model name, pinned to the checkpoint from which the run continues. */
      model: string;
      /**
       * Step of the checkpoint at the beginning of the run, before a warm start. Above 0 if the model had been trained
       * before.
       */
      fromStep: number;
      steps: number;
      groupsPerStep: number;
      rolloutsPerGroup: number;
      /** Steps that were finished before; absent unless the run is resumed. */
      finishedSteps?: number;
      /** Versions that changed since the run began; absent unless it is resumed. */
      changedVersions?: VersionChange[];
      /** Reports of the finished steps, in order. The events file leaves them out; `metrics.jsonl` has them. */
      finishedReports?: StepReport[];
    }
  /**
   * Progress of work outside the steps: the warm start, or an evaluation (`evaluation before`,
   * `evaluation after-step-N`, `evaluation after`). `done` counts up to `total`.
   */
  | { type: 'phase'; phase: string; done: number; total: number | null; metrics: Record<string, number> }
  | {
      type: 'evaluated';
      name: string;
      policy: string;
      score: EvaluationScore;
      scenarios: number;
      /** Scenarios with a completed rollout. Only these are in the score. */
      scored: number;
      /** Counts of its rollouts. */
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
   * Kinds of failure of a step or a validation that the run has not reported before. `name` is the name of its file in
   * `trajectories/`: `step-0003`, `before`. `step` counts from 0 and is absent for a validation.
   */
  | { type: 'failures'; name: string; step?: number; kinds: FailureKind[] }
  /** Something that a person should look at; see `diagnose`. */
  | ({ type: 'alarm' } & Alarm)
  | {
      type: 'run_ended';
      reason: RunEndReason;
      /** The reason that `stopWhen` gave, or the part of the budget that is used up; else absent. */
      because?: string;
      /** The sum over all finished steps; absent if it is 0. */
      rewrittenHistories?: number;
      seconds: number;
      runDirectory: string;
    };

export type RunListener = (event: RunEvent) => void;

/** Kind of an alarm. */
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
 * - `always_or_never`: each scenario is either always or never solved.
 * - `constant_reward`: every rollout gets the same reward.
 * - `replies_alike`: the rollouts of a group sample the same replies.
 * - `reward_ignores_replies`: replies differ within groups, and rewards only between scenarios.
 * - `not_compared`: too few rollouts complete for groups to have two of them.
 * - `unknown`: the reports do not show it, as those of earlier versions.
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
  /** For `no_signal`: its cause. */
  cause?: NoSignalCause;
  /** Step whose report raised it. */
  step: number;
  /** What was found, with numbers. */
  message: string;
  /** What to look at, and what usually helps. */
  lookAt: string;
}
