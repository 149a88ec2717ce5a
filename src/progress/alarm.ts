/** What an alarm is about. */
export type AlarmKind =
  | 'collapse'
  | 'no_signal'
  | 'reward_up_validation_down'
  | 'repeated_text'
  | 'wrong_model'
  | 'sampler_trainer_mismatch'
  | 'clipped'
  | 'stale'
  | 'failures'
  | 'event_loop_held'
  | 'credit_unused';

/** Something in a run that a person should look at. */
export interface Alarm {
  kind: AlarmKind;
  /** Step whose report raised it. */
  step: number;
  /** What was seen, with the figures. */
  message: string;
  /** What to look at, and what usually helps. */
  lookAt: string;
}
