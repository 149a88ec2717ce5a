import { createAnthropic } from '@ai-sdk/anthropic';
import Anthropic from '@anthropic-ai/sdk';
import { generateText, stepCountIs, tool } from 'ai';
import { closeEndpoints, defineEnvironment, type ModelEndpoint, train } from 'martingale';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { baseModel, type RealService, startRealService } from '../model/real-service.ts';
import { sharedFolder } from '../support/files.ts';
import { untilReward } from '../support/until-reward.ts';

let service: RealService;
beforeAll(async () => {
  service = await startRealService();
});
afterAll(async () => {
  await closeEndpoints();
  await service?.close();
});
const folder = sharedFolder();

const state = z.object({ state: z.enum(['on', 'off']) });

type Agent = (endpoint: ModelEndpoint, wish: string, signal: AbortSignal) => Promise<string>;

/** A loop of its own over streams: switches the lamp twice, and sees what it did the first time. */
const onSdk: Agent = async ({ baseUrl, apiKey }, wish, signal) => {
  const client = new Anthropic({ baseURL: baseUrl, apiKey, maxRetries: 0 });
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: `make it ${wish}` }];
  const { $schema: _, ...input_schema } = z.toJSONSchema(state);
  let lamp = 'off';
  for (let turn = 0; turn < 2; turn++) {
    const request = {
      ...{ model: 'claude-sonnet-5', max_tokens: 100, messages },
      tools: [{ name: 'lamp', input_schema: { ...input_schema, type: 'object' as const } }],
      tool_choice: { type: 'any' as const, disable_parallel_tool_use: true },
    };
    const { content } = await client.messages.stream(request, { signal }).finalMessage();
    messages.push({ role: 'assistant', content });
    for (const block of content) {
      if (block.type !== 'tool_use') continue;
      lamp = state.parse(block.input).state;
      const result = { type: 'tool_result' as const, tool_use_id: block.id, content: `the lamp is ${lamp}` };
      messages.push({ role: 'user', content: [result] });
    }
  }
  return lamp;
};

/** The AI SDK's loop over its anthropic provider. */
const onProvider: Agent = async ({ baseUrl, apiKey }, wish, signal) => {
  let lamp = 'off';
  await generateText({
    model: createAnthropic({ baseURL: baseUrl, apiKey })('policy'),
    prompt: `make it ${wish}`,
    tools: {
      lamp: tool({
        inputSchema: state,
        execute: (set) => {
          lamp = set.state;
          return `the lamp is ${lamp}`;
        },
      }),
    },
    toolChoice: 'required',
    providerOptions: { anthropic: { disableParallelToolUse: true } },
    maxOutputTokens: 100,
    stopWhen: stepCountIs(2),
    abortSignal: signal,
  });
  return lamp;
};

const lampOf = (name: string, agent: Agent) =>
  defineEnvironment({
    name,
    scenario: z.object({ wish: z.enum(['light', 'dark']) }),
    rollout: async ({ scenario, model, signal }) => agent(await model.endpoint(), scenario.wish, signal),
    rewards: {
      success: ({ scenario, outcome }) => Number(outcome === (scenario.wish === 'light' ? 'on' : 'off')),
    },
  });

const wishes = [{ wish: 'light' as const }, { wish: 'dark' as const }];

test.each([
  ['the Anthropic SDK', lampOf('sdk-lamp', onSdk)],
  ["the AI SDK's anthropic provider", lampOf('provider-lamp', onProvider)],
])('an agent on %s learns from chance to above 0.9', { tags: ['long'] }, async (_, environment) => {
  const { reports } = await train({
    ...{ environment, scenarios: wishes, steps: 25, groupsPerStep: 4, rolloutsPerGroup: 8, seed: 1 },
    ...{ client: service.client, runDirectory: `${folder}/${environment.name}` },
    model: { project: 'agents', name: environment.name, baseModel },
    config: { learning_rate: 1e-3, entropy_coefficient: 0.01 },
    progress: false,
    ...untilReward(0.9, { steps: 3 }),
  });
  const rewards = reports.map(({ reward }) => reward);
  expect(rewards[0]).toBeLessThan(0.7);
  expect(Math.min(...rewards.slice(-3)), rewards.join(' ')).toBeGreaterThan(0.9);
});
