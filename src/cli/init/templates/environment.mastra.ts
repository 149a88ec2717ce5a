import { Agent } from '@mastra/core/agent';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

const answer = z.object({ word: z.enum(['stop', 'slow', 'go']) });

/** Your agent. Nothing in it knows about training. */
async function decide(url: string, apiKey: string, light: string, signal: AbortSignal) {
  const model = { id: 'openai/policy', url, apiKey } as const;
  const agent = new Agent({ id: 'crossing', name: 'crossing', instructions: [], model });
  const { object } = await agent.generate(`the light is ${light}`, {
    structuredOutput: { schema: answer },
    abortSignal: signal,
  });
  return object?.word;
}

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    // The key tells martingale which rollout a call belongs to.
    const { baseUrl, apiKey } = await model.endpoint();
    return decide(baseUrl, apiKey, scenario.light, signal);
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
