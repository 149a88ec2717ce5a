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
import { fromTrajectoryRecord, type TrajectoryRecord } from '../../trajectory/index.ts';
import { type Rollout, type RolloutFailure, toCancellation } from '../rollout.ts';
import type { RunRolloutOptions } from '../run-rollout.ts';
import { openTrajectories, type SeatPlayer, type SeatRun } from '../seats.ts';

/** The `workerData` of a thread. */
export interface ThreadStart {
  /** URL of the environment's module. */
  environment: string;
  exportName: string;
}

/** Data from which a thread creates its own model handle. */
export interface SentModel {
  client: ClientOptions;
  name: string;
  id: string | undefined;
  settings: Omit<ModelSettings, 'budget'>;
  /** Number of the call budget; null if the model has none. */
  budget: number | null;
}

/** The models of seats that the model of the run does not play. */
export type SentPlayers = Record<string, Omit<SeatPlayer, 'model'> & { model: SentModel }>;

/** A rollout to run, without the fields that cannot be sent to a thread. */
export type SentTask = Omit<
  RunRolloutOptions<z.ZodType, unknown>,
  'environment' | 'model' | 'players' | 'signal'
>;

/** Messages to the thread. */
export type ToThread =
  | {
      type: 'run';
      id: number;
      task: SentTask;
      model: SentModel;
      players: SentPlayers;
      trace: Record<string, string>;
    }
  | { type: 'abort'; id: number; reason: RolloutFailure }
  | { type: 'admitted'; call: number }
  | { type: 'refused'; call: number; failure: RolloutFailure };

/** A rollout for a thread: its message, time limits and signal. */
export type ThreadTask = ReturnType<typeof toThreadTask>;

type Distribute<Ended, Removed extends PropertyKey> = Ended extends unknown ? Omit<Ended, Removed> : never;

/** A finished rollout, as a thread sends it. */
export type SentRollout = Distribute<Rollout, 'trajectory' | 'seats'> & {
  trajectory: TrajectoryRecord;
  seats?: readonly (Omit<SeatRun, 'trajectory'> & { trajectory: TrajectoryRecord })[];
};

/** Messages from the thread. */
export type FromThread =
  | { type: 'ready'; environment: string }
  | { type: 'unusable'; failure: RolloutFailure }
  | { type: 'ended'; id: number; rollout: SentRollout }
  | { type: 'enter'; call: number; budget: number }
  | { type: 'leave'; call: number }
  | { type: 'limited'; call: number }
  | { type: 'release'; call: number; outcome: CallOutcome };

type Task<Schema extends z.ZodType, Outcome> = RunRolloutOptions<Schema, Outcome>;

/** Converts a sent rollout. The cast holds because its outcome is a clone of what the environment returned. */
export function toRollout<Outcome>({ trajectory, seats, ...rollout }: SentRollout): Rollout<Outcome> {
  const run = seats?.map((seat) => ({ ...seat, trajectory: fromTrajectoryRecord(seat.trajectory) }));
  const main = run?.find(({ isPolicy }) => isPolicy) ?? run?.[0];
  return {
    ...rollout,
    trajectory: main?.trajectory ?? fromTrajectoryRecord(trajectory),
    ...(run ? { seats: run } : {}),
  } as Rollout<Outcome>;
}

/**
 * The result of a rollout that was lost with its thread: cancelled if its signal aborted, else failed. It has no calls.
 */
export function lostRollout<Schema extends z.ZodType, Outcome>(
  task: Task<Schema, Outcome>,
  failure: RolloutFailure,
  startedAt: number,
): Rollout<Outcome> {
  const { index, attempt, seed, signal } = task;
  const { main: trajectory, seats, all } = openTrajectories(task);
  for (const one of all) one.close();
  const durationMs = performance.now() - startedAt;
  const base = { index, attempt, seed, trajectory, ...(seats ? { seats } : {}), durationMs };
  if (signal?.aborted) return { ...base, status: 'cancelled', failure: toCancellation(signal) };
  return { ...base, status: 'failed', failure };
}

/** Data from which a thread creates its own model handle, or why that is impossible. */
function describeModel(
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
  const number = budget ? numberOf(budget) : null;
  return { sent: { client: client.options, name, id, settings: rest, budget: number } };
}

/** The models of a rollout for a thread, or why one of them cannot be called there. */
export function describeModels<Schema extends z.ZodType, Outcome>(
  { model, players = {} }: Task<Schema, Outcome>,
  numberOf: (budget: CallBudget) => number,
): { sent: { model: SentModel; players: SentPlayers } } | { failure: RolloutFailure } {
  const own = describeModel(model, numberOf);
  if ('failure' in own) return own;
  const sent: SentPlayers = {};
  for (const [seat, player] of Object.entries(players)) {
    const described = describeModel(player.model, numberOf);
    if ('failure' in described) return described;
    sent[seat] = { ...player, model: described.sent };
  }
  return { sent: { model: own.sent, players: sent } };
}

export function toThreadTask<Schema extends z.ZodType, Outcome>(
  { environment, model: _, players: __, signal, ...task }: RunRolloutOptions<Schema, Outcome>,
  { model, players }: { model: SentModel; players: SentPlayers },
) {
  const trace: Record<string, string> = {};
  propagation.inject(context.active(), trace);
  // Up to `cleanupTimeoutMs` for an unfinished set-up, and the same for the clean-up.
  const allowedAfterAbortMs = 2 * (environment.cleanupTimeoutMs ?? 0);
  return {
    message: { task: task satisfies SentTask, model, players, trace },
    /** Time limit of the rollout with its clean-up, in milliseconds. */
    allowedMs: task.timeoutMs + allowedAfterAbortMs,
    /** Time limit of the clean-up after an abort, in milliseconds. */
    allowedAfterAbortMs,
    signal,
    abortReason: (): RolloutFailure =>
      signal ? toCancellation(signal) : { code: 'cancelled', message: 'The run was stopped.' },
    /** The failure of the rollout if the thread does not answer in time. */
    overdue: {
      code: 'rollout_timeout',
      message:
        `The rollout and its rewards took longer than ${task.timeoutMs} ms and its worker thread no longer answered: ` +
        'the thread was ended. Look for a loop that blocks the thread.',
    },
  };
}
