import type { RolloutFailure } from '../rollout.ts';
import type { BudgetReply, BudgetRequest, SentRollout, SentStart } from '../sent/sent-rollout.ts';

/** The `workerData` of a thread. */
export interface ThreadStart {
  /** URL of the environment's module. */
  environment: string;
  exportName: string;
}

/** Messages to the thread. */
export type ToThread =
  | ({ type: 'run'; id: number } & SentStart)
  | { type: 'abort'; id: number; reason: RolloutFailure }
  | BudgetReply;

/** Messages from the thread. */
export type FromThread =
  | { type: 'ready'; environment: string }
  | { type: 'unusable'; failure: RolloutFailure }
  | { type: 'ended'; id: number; rollout: SentRollout }
  | BudgetRequest;
