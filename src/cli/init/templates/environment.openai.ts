import { defineEnvironment } from 'martingale';
import { OpenAI } from 'openai';
import { z } from 'zod';

const schema = {
  type: 'object',
  properties: { word: { type: 'string', enum: ['stop', 'slow', 'go'] } },
  required: ['word'],
  additionalProperties: false,
};

/** Your agent. Nothing in it knows about training. */
async function decide(client: OpenAI, light: string, signal: AbortSignal): Promise<string> {
  const { choices } = await client.chat.completions.create(
    {
      model: 'policy',
      messages: [{ role: 'user', content: `the light is ${light}` }],
      response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } },
    },
    { signal },
  );
  return JSON.parse(choices[0]?.message.content ?? '{}').word;
}

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    // The key tells martingale which rollout a call belongs to.
    const { baseUrl, apiKey } = await model.endpoint();
    return decide(new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 }), scenario.light, signal);
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
