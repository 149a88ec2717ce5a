import { generateText } from 'ai';
import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { defineEnvironment, train } from '../../src/index.ts';
import type { StepReport } from '../../src/progress/index.ts';
import { startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../support/files.ts';

const parent = sharedFolder();
const ends: (() => Promise<void>)[] = [];
const end = async () => {
  for (const close of ends.splice(0).reverse()) await close();
};
afterEach(end);

const environment = defineEnvironment({
  name: 'letters',
  scenario: z.object({ light: z.enum(['red', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: `the light is ${scenario.light}`,
      maxOutputTokens: 6,
      abortSignal: signal,
    });
    return text;
  },
  rewards: { length: ({ outcome }) => (outcome ?? '').length },
});

async function served(folder: string) {
  const engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'generated' }] });
  ends.push(() => engine.close());
  const service = await startService({ engine, dataFolder: `${parent}/data`, apiKey: 'key' });
  ends.push(() => service.close());
  return service;
}

it('a run on a checkpoint continues after a stop of everything, and trains no step twice', {
  timeout: 120_000,
}, async () => {
  const folder = await generateCheckpoint(parent, 'qwen3');
  const reports: StepReport[] = [];
  const run = async (options: { resume?: boolean; until?: number }) => {
    const service = await served(folder);
    const stop = new AbortController();
    const result = await train({
      environment,
      scenarios: [{ light: 'red' }, { light: 'green' }],
      baseUrl: service.url,
      apiKey: 'key',
      runDirectory: `${parent}/run`,
      model: { project: 'resumed', name: 'first', baseModel: 'generated' },
      config: { learning_rate: 1e-3 },
      seed: 1,
      steps: 4,
      groupsPerStep: 2,
      rolloutsPerGroup: 4,
      resume: options.resume ?? false,
      signal: stop.signal,
      onEvent: (event) => {
        if (event.type !== 'step') return;
        reports.push(event);
        if (event.step + 1 === options.until) stop.abort();
      },
    });
    await end();
    return result;
  };
  expect((await run({ until: 2 })).finalStep).toBe(2);
  const { finalStep, model } = await run({ resume: true });
  expect([finalStep, model.name]).toEqual([4, 'local/resumed/first:step4']);
  expect(reports.map(({ step, policy }) => `${step} ${policy.split(':')[1]}`)).toEqual([
    '0 step0',
    '1 step1',
    '2 step2',
    '3 step3',
  ]);
  // The optimizer and the adapter are the ones of before: what is sampled is what is trained.
  for (const { klSampler } of reports) expect(klSampler).toBeLessThan(1e-8);
});
