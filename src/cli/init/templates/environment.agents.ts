import { Agent, OpenAIProvider, Runner } from '@openai/agents';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** Your agent. Nothing in it knows about training. */
const agent = new Agent({
  name: 'crossing',
  model: 'policy',
  outputType: z.object({ word: z.enum(['stop', 'slow', 'go']) }),
});

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    // The key tells martingale which rollout a call belongs to.
    const { baseUrl, apiKey } = await model.endpoint();
    const modelProvider = new OpenAIProvider({ baseURL: baseUrl, apiKey });
    const runner = new Runner({ modelProvider, tracingDisabled: true });
    const { finalOutput } = await runner.run(agent, `the light is ${scenario.light}`, { signal });
    return finalOutput?.word;
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
