import { context, propagation } from '@opentelemetry/api';
import type { z } from 'zod';
import type { ClientOptions } from '../../client/index.ts';
import {
  type CallBudget,
  type CallOutcome,
  ModelHandle,
  type ModelSettings,
  type RolloutModel,
} from '../../model/index.ts';
import { fromTrajectoryRecord, Trajectory, type TrajectoryRecord } from '../../trajectory/index.ts';
import { type Rollout, type RolloutFailure, toCancellation } from '../rollout.ts';
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

/** A rollout for a thread: the message, and how long it may take. */
export interface ThreadTask {
  message: Omit<Extract<ToThread, { type: 'run' }>, 'type' | 'id'>;
  /** Milliseconds from the start that the rollout may take, its clean-up included. */
  allowedMs: number;
  /** Milliseconds from an abort that its clean-up may take. */
  allowedAfterAbortMs: number;
  signal: AbortSignal | undefined;
  abortReason: () => RolloutFailure;
  /** What is said of it where the thread does not answer in time. */
  overdue: RolloutFailure;
}

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

type Task<Schema extends z.ZodType, Outcome> = RunRolloutOptions<Schema, Outcome>;

/** The rollout as a thread sent it. Its outcome is what the environment's own function returned, cloned. */
export function toRollout<Outcome>({ trajectory, ...rollout }: SentRollout): Rollout<Outcome> {
  return { ...rollout, trajectory: fromTrajectoryRecord(trajectory) } as Rollout<Outcome>;
}

/** A rollout that no thread gave an end to: cancelled where it had been, else failed; nothing of it was kept. */
export function lostRollout<Schema extends z.ZodType, Outcome>(
  { index, attempt, seed, group, model, signal }: Task<Schema, Outcome>,
  failure: RolloutFailure,
  begun: number,
): Rollout<Outcome> {
  const trajectory = new Trajectory({ seed, ...(model.step === undefined ? {} : { policy: model.name }) });
  Object.assign(trajectory.metadata, { group, rollout: index, seed });
  trajectory.close();
  const base = { index, attempt, seed, trajectory, durationMs: performance.now() - begun };
  if (signal?.aborted) return { ...base, status: 'cancelled', failure: toCancellation(signal) };
  return { ...base, status: 'failed', failure };
}

/** What a thread makes its own handle from, or why it cannot. */
export function describeModel(
  model: RolloutModel,
  numberOf: (budget: CallBudget) => number,
): { sent: SentModel } | { failure: RolloutFailure } {
  if (!(model instanceof ModelHandle) || model.completions)
    return {
      failure: {
        code: 'model_not_movable',
        message:
          `"${model.name}" cannot be called from a worker thread: only models of a service can, by openModel() or ` +
          'ModelHandle, without recorded calls. Run external models and replays with inProcess().',
      },
    };
  const { client, name, id, settings } = model;
  const { budget, ...rest } = settings;
  return {
    sent: {
      client: client.options,
      name,
      id,
      settings: rest,
      budget: budget ? numberOf(budget) : null,
    },
  };
}

export function toThreadTask<Schema extends z.ZodType, Outcome>(
  { environment, model: _, signal, ...task }: RunRolloutOptions<Schema, Outcome>,
  model: SentModel,
): ThreadTask {
  const trace: Record<string, string> = {};
  propagation.inject(context.active(), trace);
  // Set-up that has not ended, and then the clean-up itself, have this long each.
  const allowedAfterAbortMs = 2 * (environment.cleanupTimeoutMs ?? 0);
  return {
    message: { task, model, trace },
    allowedMs: task.timeoutMs + allowedAfterAbortMs,
    allowedAfterAbortMs,
    signal,
    abortReason: () =>
      signal ? toCancellation(signal) : { code: 'cancelled', message: 'The run was stopped.' },
    overdue: {
      code: 'rollout_timeout',
      message:
        `The rollout and its rewards took longer than ${task.timeoutMs} ms and its worker thread no longer answered: ` +
        'the thread was ended. Look for a loop that never lets go of the processor.',
    },
  };
}
