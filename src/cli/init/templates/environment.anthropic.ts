import { Anthropic } from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

const answer = z.object({ word: z.enum(['stop', 'slow', 'go']) });

/** Your agent. Nothing in it knows about training. */
async function decide(client: Anthropic, light: string, signal: AbortSignal): Promise<string | undefined> {
  const { parsed_output } = await client.messages.parse(
    {
      model: 'policy',
      max_tokens: 64,
      messages: [{ role: 'user', content: `the light is ${light}` }],
      output_config: { format: zodOutputFormat(answer) },
    },
    { signal },
  );
  return parsed_output?.word;
}

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    // The key tells martingale which rollout a call belongs to.
    const { baseUrl, apiKey } = await model.endpoint();
    return decide(new Anthropic({ baseURL: baseUrl, apiKey, maxRetries: 0 }), scenario.light, signal);
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
