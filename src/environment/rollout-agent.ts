import type { z } from 'zod';
import type { SetupContext } from './contexts.ts';
import type { OpenEnvironment } from './environment.ts';
import type { RolloutEnvironmentOptions } from './options.ts';

/** The agent that `rollout` runs. */
export function rolloutAgent<Schema extends z.ZodType, Outcome, State>(
  { rollout, atLimit }: RolloutEnvironmentOptions<Schema, Outcome, State>,
  { scenario, seed }: SetupContext<z.output<Schema>>,
  state: State,
): Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit'> {
  return {
    rollout: async (agent) => rollout({ scenario, state, seed, ...agent }),
    atLimit: atLimit && (async (agent) => atLimit({ scenario, state, seed, ...agent })),
  };
}
