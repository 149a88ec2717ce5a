import { join } from 'node:path';
import { closeEndpoints, defineEnvironment, type ModelEndpoint, openModel, sft, train } from 'martingale';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { baseModel, startRealService } from '../model/real-service.ts';
import { sharedFolder } from '../support/files.ts';
import { installedIn } from '../support/installed.ts';
import { untilReward } from '../support/until-reward.ts';
import { expectExact, openDesk, openRollout } from './support.ts';

/** What the tests use of `@anthropic-ai/claude-agent-sdk`. */
interface ClaudeAgentSdk {
  query(request: { prompt: string; options: object }): AsyncIterable<{ type: string; result?: string }>;
  tool(
    name: string,
    description: string,
    schema: object,
    run: (input: { order: number }) => unknown,
  ): unknown;
  createSdkMcpServer(options: { name: string; tools: unknown[] }): object;
}

/** It has a program of 250 MB for each platform, so it is installed by the first run. */
const packages = {
  ...{ '@anthropic-ai/claude-agent-sdk': '^0.3.332', '@anthropic-ai/sdk': '^1.14.0' },
  ...{ '@modelcontextprotocol/sdk': '^1.32.2', zod: '^4.6.7' },
};

let sdk: ClaudeAgentSdk | undefined;
beforeAll(async () => {
  const path = await installedIn('claude-agent', packages);
  if (path !== undefined) sdk = await import(join(path, '@anthropic-ai/claude-agent-sdk/sdk.mjs'));
}, 600_000);
afterAll(closeEndpoints);
const folder = sharedFolder();

/** The agent as a user has it, with an environment of its own: no settings, keys or telemetry of this machine. */
async function ask({ query }: ClaudeAgentSdk, endpoint: ModelEndpoint, prompt: string, options: object = {}) {
  const env = {
    ...{ PATH: process.env.PATH, HOME: folder, CLAUDE_CONFIG_DIR: folder },
    ...{ ANTHROPIC_BASE_URL: endpoint.baseUrl, ANTHROPIC_API_KEY: endpoint.apiKey },
    // A short prompt, because the tiny model has a context of 512 tokens.
    ...{ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', CLAUDE_CODE_SIMPLE: '1' },
  };
  const own = { cwd: folder, settingSources: [], persistSession: false, tools: [] };
  let said = '';
  const request = { ...own, model: 'policy', systemPrompt: 'You help.', env, ...options };
  for await (const { type, result } of query({ prompt, options: request }))
    if (type === 'result') said = result ?? '';
  return said;
}

const wishes = { light: 'on', dark: 'off' } as const;
const promptOf = (wish: string) => `make it ${wish}`;

/** The prompts as the agent writes them, each with both replies: a model learns the words, and not which one is right. */
async function examplesOf(claude: ClaudeAgentSdk) {
  await using desk = await openDesk(() => ({ text: 'on' }));
  for (const wish of Object.keys(wishes))
    await ask(claude, await openRollout().endpoint(desk.model), promptOf(wish));
  return desk.service.requests.flatMap(({ messages }) =>
    Object.values(wishes).map((content) => ({
      messages: [...messages, { role: 'assistant' as const, content }],
    })),
  );
}

describe('the Claude Agent SDK', { tags: ['long'] }, () => {
  test('calls tools in one history of what was sampled', async ({ skip }) => {
    if (!sdk) return skip('it cannot be installed');
    await using desk = await openDesk(({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: 'it is paid' }
        : { toolCalls: [{ name: 'mcp__desk__order', arguments: '{ "order" :  12.0 }' }] },
    );
    const order = sdk.tool('order', 'Look up an order', { order: z.number() }, async (input) => ({
      content: [{ type: 'text', text: `order ${input.order} is paid` }],
    }));
    const mcpServers = { desk: sdk.createSdkMcpServer({ name: 'desk', tools: [order] }) };
    const { trajectory, endpoint } = openRollout();
    const options = { mcpServers, allowedTools: ['mcp__desk__order'] };
    expect(await ask(sdk, await endpoint(desk.model), 'order 12?', options)).toBe('it is paid');
    expect(desk.service.requests[1]?.messages.at(-1)).toMatchObject({ content: 'order 12 is paid' });
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices).toHaveLength(2);
    expect(trajectory.observations.unansweredCalls).toEqual([]);
    expectExact(trajectory, desk.service.requests);
  });

  test('learns from chance to above 0.9', async ({ skip }) => {
    if (!sdk) return skip('it cannot be installed');
    const claude = sdk;
    const service = await startRealService();
    try {
      const examples = await examplesOf(claude);
      const opened = await openModel({
        client: service.client,
        project: 'agents',
        name: 'claude',
        baseModel,
      });
      const repeated = Array.from({ length: 120 }, () => examples).flat();
      const { model } = await sft({ model: opened, examples: repeated, batchSize: 8, learningRate: 1.5e-3 });
      const lamp = defineEnvironment({
        name: 'claude-lamp',
        scenario: z.object({ wish: z.enum(['light', 'dark']) }),
        rollout: async ({ scenario, model: policy }) =>
          ask(claude, await policy.endpoint(), promptOf(scenario.wish)),
        rewards: { success: ({ scenario, outcome }) => Number(outcome === wishes[scenario.wish]) },
      });
      const { reports } = await train({
        ...{ environment: lamp, model, scenarios: [{ wish: 'light' }, { wish: 'dark' }], steps: 12 },
        ...{ groupsPerStep: 2, rolloutsPerGroup: 8, concurrency: 4, seed: 1, progress: false },
        config: { learning_rate: 2e-3 },
        runDirectory: join(folder, 'run'),
        ...untilReward(0.9),
      });
      const rewards = reports.map(({ reward }) => reward);
      expect(rewards[0], rewards.join(' ')).toBeLessThan(0.7);
      expect(rewards.at(-1), rewards.join(' ')).toBeGreaterThan(0.9);
    } finally {
      await service.close();
    }
  });
});
