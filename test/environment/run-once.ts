import { type Environment, ModelHandle, type Rollout, type RolloutModel } from 'martingale';
import type { z } from 'zod';
import { type RunRolloutOptions, runRollout } from '../../src/rollout/run-rollout.ts';
import { type FakePolicy, startFakeService } from '../model/fake-service.ts';

export const noScenario = {};

/** A fake service and a model handle pinned to its first step. */
export async function openPolicy(policy: FakePolicy) {
  const service = await startFakeService({ policy });
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
  return { ...service, model };
}

export function rolloutOptions<Schema extends z.ZodType, Outcome>(
  environment: Environment<Schema, Outcome>,
  scenario: z.output<Schema>,
  model: RolloutModel,
): RunRolloutOptions<Schema, Outcome> {
  return {
    environment,
    scenario,
    model,
    ...{ group: 0, index: 0, attempt: 0, seed: 7, timeoutMs: 30_000, rewardTimeoutMs: 30_000 },
    onUnexpectedCall: 'error',
    signal: undefined,
  };
}

/** Runs one rollout with a fake service that answers with `policy`. */
export async function runOnce<Schema extends z.ZodType, Outcome>(
  environment: Environment<Schema, Outcome>,
  scenario: z.output<Schema>,
  policy: FakePolicy,
  options: Partial<RunRolloutOptions<Schema, Outcome>> = {},
): Promise<Rollout<Outcome>> {
  await using service = await openPolicy(policy);
  return await runRollout({ ...rolloutOptions(environment, scenario, service.model), ...options });
}

/** The outcome of a rollout that must be completed. */
export function outcomeOf<Outcome>(rollout: Rollout<Outcome>): Outcome {
  if (rollout.status !== 'completed') throw new Error(`${rollout.failure.code}: ${rollout.failure.message}`);
  return rollout.outcome;
}
