import { context, propagation } from '@opentelemetry/api';
import type { z } from 'zod';
import { ModelHandle, type RolloutModel } from '../../model/index.ts';
import { toCancellation } from '../failure.ts';
import type { RolloutFailure } from '../rollout.ts';
import type { RunRolloutOptions } from '../run-rollout.ts';
import type { Budgets } from './budgets.ts';
import type { SentModel } from './messages.ts';
import type { ThreadTask } from './rollout-thread.ts';

/** What a thread makes its own handle from, or why it cannot. */
export function describeModel(
  model: RolloutModel,
  budgets: Budgets,
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
      budget: budget ? budgets.numberOf(budget) : null,
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
