import { generateText } from 'ai';
import { z } from 'zod';
import {
  createClient,
  defineEnvironment,
  type EvaluateOptions,
  evaluate,
  ModelHandle,
} from '../../src/index.ts';

const scenario = z.object({ id: z.number() });

/** Two calls per rollout; their replies decide reward and success. */
export const guessing = defineEnvironment({
  name: 'guessing',
  scenario,
  rollout: async ({ scenario: { id }, model, signal }) => {
    const ask = (prompt: string) => generateText({ model: model.languageModel, prompt, abortSignal: signal });
    const first = await ask(`first of ${id}`);
    const second = await ask(`${first.text}, second of ${id}`);
    if (id === 5) throw new Error('broken');
    return Number(second.text);
  },
  rewards: {
    digit: ({ outcome }) => outcome / 10,
    success: { weight: 0, reward: ({ outcome }) => Number(outcome >= 5) },
  },
});

export const guessingScenarios = Array.from({ length: 24 }, (_, id) => ({ id }));

/** A digit determined by the seed of the call. */
export const digitOf = (seed: number | null | undefined): string => String((seed ?? 0) % 10);

export async function evaluateGuessing(
  baseUrl: string,
  options: Partial<EvaluateOptions<typeof scenario, number>> = {},
) {
  const client = createClient({ baseUrl, apiKey: 'key' });
  try {
    return await evaluate({
      environment: guessing,
      scenarios: guessingScenarios,
      model: new ModelHandle({ client, name: 'a/b/c:step7' }),
      rolloutsPerScenario: 3,
      passAt: [1, 3],
      concurrency: 4,
      seed: 6,
      ...options,
    });
  } finally {
    await client.close();
  }
}
