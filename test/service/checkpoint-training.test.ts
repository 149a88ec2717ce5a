import { generateText, Output } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { defineEnvironment, train } from '../../src/index.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../support/files.ts';

const words = ['stop', 'slow', 'go'] as const;
const guess = defineEnvironment({
  name: 'guess',
  scenario: z.object({ light: z.enum(['red', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    const { output } = await generateText({
      model: model.languageModel,
      prompt: `the light is ${scenario.light}`,
      output: Output.choice({ options: [...words] }),
      abortSignal: signal,
    });
    return output;
  },
  rewards: { success: ({ outcome }) => Number(outcome === 'go') },
});

// The template of qwen3 writes an empty block of reasoning into an answer, which is not in the prompt of the reply.
describe.each(['qwen2', 'qwen3', 'llama3'] as const)('a generated checkpoint of %s', (family) => {
  const parent = sharedFolder();
  let engine: Engine;
  let service: RunningService;

  beforeAll(async () => {
    const folder = await generateCheckpoint(parent, family);
    engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'generated' }] });
    service = await startService({ engine, dataFolder: `${parent}/${family}-data` });
  });
  afterAll(async () => {
    await service?.close();
    await engine?.close();
  });

  it('learns through the service, from the tokens that it sampled', { timeout: 120_000 }, async () => {
    const rewards: number[] = [];
    const divergences: number[] = [];
    await train({
      environment: guess,
      scenarios: [{ light: 'red' }, { light: 'green' }],
      baseUrl: service.url,
      apiKey: service.apiKey,
      runDirectory: `${parent}/${family}-run`,
      model: { project: 'guess', name: family, baseModel: 'generated' },
      config: { learning_rate: 2e-3 },
      seed: 1,
      steps: 15,
      groupsPerStep: 2,
      rolloutsPerGroup: 16,
      onEvent: (event) => {
        if (event.type !== 'step') return;
        rewards.push(event.reward ?? Number.NaN);
        divergences.push(event.klSampler ?? 0);
      },
    });
    expect(rewards[0]).toBeLessThan(0.7);
    expect(rewards.slice(-3).reduce((sum, reward) => sum + reward) / 3).toBeGreaterThan(0.9);
    // Squares of the differences between the log-probabilities of trainer and sampler.
    expect(Math.max(...divergences)).toBeLessThan(1e-8);
  });
});
