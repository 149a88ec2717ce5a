import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateText } from 'ai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Engine } from '../../../src/engines/engine.ts';
import { createTinkerEngine } from '../../../src/engines/tinker/index.ts';
import { createClient, defineEnvironment, train } from '../../../src/index.ts';
import { type RunningService, startService } from '../../../src/service/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../../support/files.ts';
import { createPythonEnvironment } from '../python-environment.ts';
import { freePort, type Skyrl, type SkyrlSettings, startSkyrl } from './skyrl-server.ts';

const requirements = readFileSync(join(import.meta.dirname, 'requirements.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

/** Rewards the share of small letters from a to m. */
const letters = defineEnvironment({
  name: 'letters',
  scenario: z.object({ word: z.string() }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: scenario.word,
      maxOutputTokens: 8,
      abortSignal: signal,
    });
    return text;
  },
  rewards: {
    share: ({ outcome }) => (outcome.match(/[a-m]/g) ?? []).length / Math.max(8, outcome.length),
  },
});

describe('SkyRL with its JAX backend', { tags: ['long'] }, () => {
  const folder = sharedFolder();
  let missing: string | null = null;
  let settings: SkyrlSettings;
  let server: Skyrl;
  let engine: Engine;
  let service: RunningService;

  beforeAll(async () => {
    let python: string;
    try {
      ({ python } = await createPythonEnvironment({ requirements, minor: 12, pipArguments: ['--no-deps'] }));
    } catch (error) {
      missing = `The tests against SkyRL did NOT run: ${error}`;
      console.error(`\n!!! ${missing}\n`);
      return;
    }
    const model = await generateCheckpoint(folder, 'qwen3', { vocabularySize: 709 });
    settings = { python, model, data: `${folder}/server`, port: await freePort() };
    server = await startSkyrl(settings);
    engine = await createTinkerEngine({ url: server.url, checkpoint: model, id: 'remote', rank: 8 });
    service = await startService({ engine, dataFolder: `${folder}/data` });
  }, 600_000);
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ''));
  afterAll(async () => {
    await service?.close();
    await engine?.close();
    await server?.kill();
  }, 60_000);

  it('trains a model to write some letters, from chance, and goes on when the server was killed', async () => {
    const rewards: number[] = [];
    const divergences: number[] = [];
    let restarted: Promise<void> | undefined;
    await train({
      environment: letters,
      scenarios: ['one', 'two', 'three', 'four'].map((word) => ({ word })),
      baseUrl: service.url,
      apiKey: service.apiKey,
      runDirectory: `${folder}/run`,
      model: { project: 'skyrl', name: 'letters', baseModel: 'remote' },
      // Faster is chance: some seeds settle on a few letters and learn no more.
      config: { learning_rate: 0.006 },
      seed: 1,
      steps: 16,
      keepCheckpoints: 'all',
      groupsPerStep: 4,
      rolloutsPerGroup: 16,
      onEvent: (event) => {
        if (event.type === 'step') {
          rewards.push(event.reward ?? Number.NaN);
          divergences.push(event.klSampler ?? 0);
        }
        // During the job of step 4.
        if (event.type === 'step' && event.step === 3)
          restarted = server.kill().then(async () => {
            server = await startSkyrl(settings);
          });
      },
    });
    await restarted;
    expect(restarted).toBeDefined();
    expect(rewards[0]).toBeLessThan(0.5);
    expect(rewards.at(-1)).toBeGreaterThan(0.9);
    // Squares of the differences between the log-probabilities of trainer and sampler.
    expect(Math.max(...divergences)).toBeLessThan(1e-8);
  });

  it('samples an older checkpoint and the base model beside the newest, each from its own weights', async () => {
    const { chat } = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    const shares = await Promise.all(
      ['remote', 'local/skyrl/letters:step2', 'local/skyrl/letters'].map(async (model) => {
        const messages = [{ role: 'user' as const, content: 'one' }];
        const { choices } = await chat.completions.create({ model, messages, max_tokens: 8, n: 16, seed: 3 });
        const texts = choices.map(({ message }) => String(message.content));
        const counts = texts.map((text) => (text.match(/[a-m]/g) ?? []).length / Math.max(8, text.length));
        return counts.reduce((sum, count) => sum + count) / counts.length;
      }),
    );
    const [untrained = 1, older = 1, newest = 0] = shares;
    expect(newest).toBeGreaterThan(0.9);
    expect(untrained).toBeLessThan(0.6);
    expect(older).toBeLessThan(0.8);
  });
});
