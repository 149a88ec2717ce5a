// An agent with its own loop and OpenAI's client. It gets only a URL and a key, so it could also run in another process
// or language. Start `MARTINGALE_API_KEY=mine npm run martingale -- serve`, then run: npx tsx examples/any-agent.ts
import { defineEnvironment, train } from 'martingale';
import OpenAI from 'openai';
import { z } from 'zod';

const [steps = '30', runDirectory] = process.argv.slice(2);

const state = { type: 'string', enum: ['on', 'off'] };
const parameters = {
  type: 'object',
  properties: { state },
  required: ['state'],
  additionalProperties: false,
};
const tools = [{ type: 'function' as const, function: { name: 'lamp', parameters } }];

/** Switches the lamp twice and returns its state. */
async function lampAgent(client: OpenAI, wish: string): Promise<string> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: `make it ${wish}` }];
  let lamp = 'off';
  for (let turn = 0; turn < 2; turn++) {
    const request = {
      model: 'gpt-5',
      messages,
      tools,
      tool_choice: 'required',
      parallel_tool_calls: false,
    } as const;
    const { choices } = await client.chat.completions.create(request);
    const [call] = choices[0]?.message.tool_calls ?? [];
    if (!choices[0] || call?.type !== 'function') break;
    lamp = JSON.parse(call.function.arguments).state;
    messages.push(choices[0].message);
    messages.push({ role: 'tool', tool_call_id: call.id, content: `the lamp is ${lamp}` });
  }
  return lamp;
}

const lamp = defineEnvironment({
  name: 'any-lamp',
  scenario: z.object({ wish: z.enum(['light', 'dark']) }),
  rollout: async ({ scenario, model }) => {
    const { baseUrl, apiKey } = await model.endpoint();
    return lampAgent(new OpenAI({ baseURL: baseUrl, apiKey }), scenario.wish);
  },
  rewards: {
    success: ({ scenario, outcome }) => Number(outcome === (scenario.wish === 'light' ? 'on' : 'off')),
  },
});

await train({
  environment: lamp,
  scenarios: [{ wish: 'light' }, { wish: 'dark' }],
  baseUrl: process.env.MARTINGALE_BASE_URL ?? 'http://127.0.0.1:8000',
  apiKey: process.env.MARTINGALE_API_KEY ?? 'mine',
  model: { project: 'examples', name: 'any-lamp', baseModel: 'martingale-tiny' },
  steps: Number(steps),
  groupsPerStep: 4,
  rolloutsPerGroup: 8,
  runDirectory,
  onEvent: (event) => event.type === 'step' && console.log(event.step, event.reward.toFixed(2)),
});
