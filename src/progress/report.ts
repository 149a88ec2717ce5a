import type { ToolUses } from '../trajectory/index.ts';

/** What the rollouts of each group of a step have in common. It shows why groups have no signal. */
export interface GroupComparison {
  /** Groups with two or more completed rollouts. The counts below are of these groups only. */
  compared: number;
  /** Groups whose rewards are all equal. */
  equalRewards: number;
  /** Groups in which all rollouts succeeded (`solved`), and in which none did; null without the metric `success`. */
  solved: number | null;
  unsolved: number | null;
  /** Groups in which some rollouts succeeded and others did not. Absent in older records. */
  mixed?: number;
  /** Mixed groups in which the rollouts without success have the higher mean reward. */
  againstSuccess?: number;
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

/** How the model did in a step against a model that played a seat. */
export interface OpponentResult {
  seat: string;
  /** Name of the opponent's model. */
  model: string;
  /** Completed rollouts. */
  rollouts: number;
  /** Mean reward of the seats that the model of the run played in them. */
  reward: number;
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
  /**
   * The forms that the first calls of rollouts asked their replies to have, such as `response_format {"type":...}`: at
   * most 3 different ones, of 500 characters at most. Empty: replies were free.
   */
  askedForms: readonly string[];
  /** Requests of rollouts to model APIs that are not recorded, by host and path. */
  otherModels: Record<string, number>;
  /** Whether calls had credit of their own, and whether the job confirmed that it used it. */
  credit: 'none' | 'used' | 'not_confirmed';
  /** Prompt and sampled tokens of all rollouts, including failed ones; cost in the currency of the run's `prices`. */
  usage: { promptTokens: number; sampledTokens: number; cost: number | null };
  /**
   * Means of the completed rollouts' metrics, by name. In an environment with seats: means over the seats that the
   * model of the run plays, and for each seat `seat/metric` and its reward `seat/reward`.
   */
  metrics: Record<string, number>;
  /** How the model did against each model that played a seat. Empty without such seats. */
  opponents: OpponentResult[];
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
  /** Longest block of this process's event loop since the previous step, in milliseconds, whatever its reason. */
  loopDelayMs: number;
  /**
   * Milliseconds since the previous step in which code of this process held its event loop, in blocks of 100 ms and more.
   * Time in which it waited for a processor does not count. Absent in older records.
   */
  loopHeldMs?: number;
  /** Wall-clock seconds of each phase. `log`: how long the step waited for its log after the training. */
  phases: { rollouts: number; log: number; training: number; checkpoint: number };
  /** Pinned name of the policy that the rollouts sampled from. */
  policy: string;
}

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
  | 'reward_against_success'
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
 * - `unknown`: the reports do not show it, for example reports of earlier versions.
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
