import { context, propagation } from '@opentelemetry/api';
import type { z } from 'zod';
import type { ClientOptions } from '../../client/index.ts';
import { givenTexts, type TextSet } from '../../environment/index.ts';
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

/** Data from which a model handle is created elsewhere. */
export interface SentModel {
  client: ClientOptions;
  name: string;
  id: string | undefined;
  settings: Omit<ModelSettings, 'budget'>;
  /** Number of the call budget; null if the model has none. */
  budget: number | null;
}

/** The models of seats that the model of the run does not play. */
type SentPlayers = Record<string, Omit<SeatPlayer, 'model'> & { model: SentModel }>;

export interface SentModels {
  model: SentModel;
  players: SentPlayers;
}

/** A rollout to run, without the fields that cannot be sent. */
type SentTask = Omit<RunRolloutOptions<z.ZodType, unknown>, 'environment' | 'model' | 'players' | 'signal'>;

/** All that another thread or process needs for a rollout of an environment that it has loaded. */
export interface SentStart extends SentModels {
  task: SentTask;
  /** The environment's texts, which may differ from the texts of the loaded one. */
  texts: TextSet | undefined;
  /** OpenTelemetry's context of the rollout's span. */
  trace: Record<string, string>;
}

/** What the holder of a rollout says of its calls' slots in budgets. */
export type BudgetRequest =
  | { type: 'enter'; call: number; budget: number }
  | { type: 'leave'; call: number }
  | { type: 'limited'; call: number }
  | { type: 'release'; call: number; outcome: CallOutcome };

/** Answers to budget requests. */
export type BudgetReply =
  | { type: 'admitted'; call: number }
  | { type: 'refused'; call: number; failure: RolloutFailure };

type Distribute<Ended, Removed extends PropertyKey> = Ended extends unknown ? Omit<Ended, Removed> : never;

/** A finished rollout, as it is sent. */
export type SentRollout = Distribute<Rollout, 'trajectory' | 'seats'> & {
  trajectory: TrajectoryRecord;
  seats?: readonly (Omit<SeatRun, 'trajectory'> & { trajectory: TrajectoryRecord })[];
};

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
 * The result of a rollout that was lost with its thread or process: cancelled if its signal aborted, else failed. It has no calls.
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

/** Data from which a model handle is created elsewhere, or why that is impossible. */
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

/** The models of a rollout as they are sent, or why one of them cannot be called elsewhere. */
export function describeModels<Schema extends z.ZodType, Outcome>(
  { model, players = {} }: Task<Schema, Outcome>,
  numberOf: (budget: CallBudget) => number,
): { sent: SentModels } | { failure: RolloutFailure } {
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

/** The message that starts a rollout elsewhere. It carries on the trace of the current span. */
export function toSentStart<Schema extends z.ZodType, Outcome>(
  { environment, model: _, players: __, signal: ___, ...task }: Task<Schema, Outcome>,
  models: SentModels,
): SentStart {
  const trace: Record<string, string> = {};
  propagation.inject(context.active(), trace);
  return { task: task satisfies SentTask, texts: givenTexts(environment), ...models, trace };
}

/** How long a rollout may take elsewhere, in milliseconds. */
export function timeOf<Schema extends z.ZodType, Outcome>({ environment, timeoutMs }: Task<Schema, Outcome>) {
  // Up to `cleanupTimeoutMs` for an unfinished set-up, and the same for the clean-up.
  const afterAbortMs = 2 * (environment.cleanupTimeoutMs ?? 0);
  return { inAllMs: timeoutMs + afterAbortMs, afterAbortMs };
}

export const abortReasonOf = (signal: AbortSignal | undefined): RolloutFailure =>
  signal ? toCancellation(signal) : { code: 'cancelled', message: 'The run was stopped.' };

export function notCloneable(error: unknown): RolloutFailure {
  return {
    code: 'task_not_cloneable',
    message: `The scenario, or the model's settings, cannot be copied to a worker: ${String(error)}`,
  };
}
