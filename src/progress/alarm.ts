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
