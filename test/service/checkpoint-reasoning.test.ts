import { generateText, tool } from 'ai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { defineEnvironment, train } from '../../src/index.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../support/files.ts';

const tools = { press: tool({ inputSchema: z.object({ button: z.enum(['left', 'right']) }) }) };
const replies: { reasoning: string | undefined; text: string; calls: unknown[] }[] = [];

const environment = defineEnvironment({
  name: 'thinking',
  scenario: z.object({ light: z.enum(['red', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    const { reasoningText, text, toolCalls } = await generateText({
      model: model.languageModel,
      prompt: `the light is ${scenario.light}`,
      tools,
      reasoning: 'minimal',
      maxOutputTokens: 80,
      abortSignal: signal,
    });
    replies.push({ reasoning: reasoningText, text, calls: toolCalls });
    return text.length;
  },
  // Any difference between the rollouts.
  rewards: { success: ({ outcome }) => (outcome ?? 0) % 7 },
});

const parent = sharedFolder();
let engine: Engine;
let service: RunningService;

beforeAll(async () => {
  const folder = await generateCheckpoint(parent, 'qwen3');
  engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'generated' }] });
  service = await startService({ engine, dataFolder: `${parent}/data` });
});
afterAll(async () => {
  await service?.close();
  await engine?.close();
});

it('a checkpoint is trained on reasoning of limited length, and on text or calls as it likes', {
  timeout: 120_000,
}, async () => {
  const divergences: (number | undefined)[] = [];
  await train({
    environment,
    scenarios: [{ light: 'red' }],
    baseUrl: service.url,
    apiKey: service.apiKey,
    runDirectory: `${parent}/run`,
    model: { project: 'thinking', name: 'first', baseModel: 'generated' },
    seed: 1,
    steps: 2,
    groupsPerStep: 1,
    rolloutsPerGroup: 8,
    onEvent: (event) => {
      if (event.type === 'step') divergences.push(event.klSampler ?? undefined);
    },
  });
  expect(replies).toHaveLength(16);
  expect(replies.every(({ reasoning }) => reasoning !== undefined && reasoning !== '')).toBe(true);
  expect(replies.some(({ text }) => text !== '')).toBe(true);
  // Squares of the differences between the log-probabilities of trainer and sampler.
  expect(divergences).toHaveLength(2);
  for (const divergence of divergences) expect(divergence).toBeLessThan(1e-8);
});
