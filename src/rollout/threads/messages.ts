import type { z } from 'zod';
import type { ClientOptions } from '../../client/index.ts';
import type { CallOutcome, ModelSettings } from '../../model/index.ts';
import type { TrajectoryRecord } from '../../trajectory/index.ts';
import type { Rollout, RolloutFailure } from '../rollout.ts';
import type { RunRolloutOptions } from '../run-rollout.ts';

/** What a thread is started with. */
export interface ThreadStart {
  /** Address of the environment's module. */
  environment: string;
  exportName: string;
}

/** What a thread makes its own handle of the model from. */
export interface SentModel {
  client: ClientOptions;
  name: string;
  id: string | undefined;
  settings: Omit<ModelSettings, 'budget'>;
  /** Number of the call budget; null without one. */
  budget: number | null;
}

/** A rollout to run, without what cannot leave its thread. */
export type SentTask = Omit<RunRolloutOptions<z.ZodType, unknown>, 'environment' | 'model' | 'signal'>;

/** To the thread. */
export type ToThread =
  | { type: 'run'; id: number; task: SentTask; model: SentModel; trace: Record<string, string> }
  | { type: 'abort'; id: number; reason: RolloutFailure }
  | { type: 'admitted'; call: number }
  | { type: 'refused'; call: number; failure: RolloutFailure };

type Distribute<Ended, Removed extends PropertyKey> = Ended extends unknown ? Omit<Ended, Removed> : never;

/** A rollout that has ended in a thread. */
export type SentRollout = Distribute<Rollout, 'trajectory'> & { trajectory: TrajectoryRecord };

/** From the thread. */
export type FromThread =
  | { type: 'ready'; environment: string }
  | { type: 'unusable'; failure: RolloutFailure }
  | { type: 'ended'; id: number; rollout: SentRollout }
  | { type: 'enter'; call: number; budget: number }
  | { type: 'leave'; call: number }
  | { type: 'limited'; call: number }
  | { type: 'release'; call: number; outcome: CallOutcome };
