import type { z } from 'zod';
import type { SetupContext } from './contexts.ts';
import type { OpenEnvironment } from './environment.ts';
import { askOnError } from './on-error.ts';
import type { RolloutEnvironmentOptions } from './options.ts';
import { scoredErrorMetric } from './own-metrics.ts';

/** The agent that `rollout` runs. */
export function rolloutAgent<Schema extends z.ZodType, Outcome, State>(
  { rollout, atLimit, onError }: RolloutEnvironmentOptions<Schema, Outcome, State>,
  { scenario, seed }: SetupContext<z.output<Schema>>,
  state: State,
): Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit' | 'onError'> {
  const own = { scenario, state, seed };
  return {
    rollout: async (agent) => {
      if (onError) agent.trajectory.metrics[scoredErrorMetric] = 0;
      return rollout({ ...own, ...agent });
    },
    atLimit: atLimit && (async (agent) => atLimit({ ...own, ...agent })),
    onError:
      (atLimit || onError) &&
      (async ({ error, stopReason: _, isAtContextEnd, ...agent }) => {
        if (isAtContextEnd && atLimit)
          return { outcome: await atLimit({ ...own, ...agent, reason: 'context_limit' }) };
        return onError && askOnError(agent.trajectory, error, () => onError({ ...own, ...agent, error }));
      }),
  };
}
