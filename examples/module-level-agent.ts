// An agent that is built once for the whole program: `policy()` is the model of the current rollout. Start
// `MARTINGALE_API_KEY=mine npm run martingale -- serve`, then run:
// npx tsx examples/module-level-agent.ts
import { stepCountIs, ToolLoopAgent, tool } from 'ai';
import { defineEnvironment, policy, train } from 'martingale';
import { z } from 'zod';

const [steps = '30', runDirectory] = process.argv.slice(2);

const agent = new ToolLoopAgent({
  model: policy(),
  tools: {
    lamp: tool({
      inputSchema: z.object({ state: z.enum(['on', 'off']) }),
      execute: ({ state }) => `the lamp is ${state}`,
    }),
  },
  toolChoice: 'required',
  stopWhen: stepCountIs(1),
});

const lamp = defineEnvironment({
  name: 'lamp',
  scenario: z.object({ wish: z.enum(['light', 'dark']) }),
  rollout: async ({ scenario, signal }) => {
    const result = await agent.generate({ prompt: `make it ${scenario.wish}`, abortSignal: signal });
    return result.steps[0]?.staticToolCalls[0]?.input.state;
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
  model: { project: 'examples', name: 'lamp', baseModel: 'martingale-tiny' },
  steps: Number(steps),
  groupsPerStep: 4,
  rolloutsPerGroup: 8,
  runDirectory,
  onEvent: (event) => event.type === 'step' && console.log(event.step, event.reward.toFixed(2)),
});
