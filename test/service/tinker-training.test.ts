import { generateText } from 'ai';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { combineEngines } from '../../src/engines/combined-engine.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { createTinkerEngine } from '../../src/engines/tinker/index.ts';
import { createClient, defineEnvironment, train } from '../../src/index.ts';
import { type LogEntry, startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { TinkerServer } from '../engines/tinker/tinker-server.ts';
import { temporaryFolder } from '../support/files.ts';

/** Rewards the share of small letters from a to m. */
const letters = defineEnvironment({
  name: 'letters',
  scenario: z.object({ word: z.string() }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: scenario.word,
      maxOutputTokens: 6,
      abortSignal: signal,
    });
    return text;
  },
  rewards: {
    share: ({ outcome }) => (outcome.match(/[a-m]/g) ?? []).length / Math.max(6, outcome.length),
  },
});

async function serve(server: TinkerServer, log: (entry: LogEntry) => void = () => undefined) {
  const folder = await temporaryFolder();
  const checkpoint = await generateCheckpoint(folder, 'qwen3');
  const engine = combineEngines([
    await createEmbeddedEngine({ threads: 1 }),
    await createTinkerEngine({ url: server.url, checkpoint, id: 'remote', rank: 4 }),
  ]);
  const service = await startService({ engine, dataFolder: `${folder}/data`, log });
  onTestFinished(async () => {
    await service.close();
    await engine.close();
  });
  return { folder, service };
}

test('a model on a training server learns through the service, beside the tiny models', {
  timeout: 60_000,
}, async () => {
  const server = await TinkerServer.start({ vocabularySize: 709 });
  const { folder, service } = await serve(server);
  const rewards: number[] = [];
  const divergences: number[] = [];
  await train({
    environment: letters,
    scenarios: ['one', 'two'].map((word) => ({ word })),
    baseUrl: service.url,
    apiKey: service.apiKey,
    runDirectory: `${folder}/run`,
    model: { project: 'letters', name: 'remote', baseModel: 'remote' },
    config: { learning_rate: 2 },
    seed: 1,
    steps: 10,
    groupsPerStep: 2,
    rolloutsPerGroup: 16,
    onEvent: (event) => {
      if (event.type !== 'step') return;
      rewards.push(event.reward ?? Number.NaN);
      divergences.push(event.klSampler ?? 0);
    },
  });
  expect(rewards[0]).toBeLessThan(0.6);
  expect(rewards.at(-1)).toBeGreaterThan(0.85);
  // Squares of the differences between the log-probabilities of trainer and sampler.
  expect(Math.max(...divergences)).toBeLessThan(1e-8);
  const chat = (body: object) =>
    fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'one' }], max_tokens: 4, ...body }),
    });
  expect((await chat({ model: 'martingale-tiny' })).status).toBe(200);
  expect((await chat({ model: 'remote' })).status).toBe(200);
  const several = await chat({ model: 'remote', n: 3, seed: 5 });
  expect(await several.json()).toMatchObject({ choices: [{}, {}, {}] });
  expect(server.received.map(({ body }) => body.num_samples)).toContain(3);
  const refused = await chat({ model: 'remote', response_format: { type: 'json_object' } });
  expect(refused.status).toBe(422);
  expect(await refused.text()).toContain('response_format');
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
  expect((await chat({ model: 'remote', tools })).status).toBe(200);
  expect((await chat({ model: 'remote', tools, tool_choice: 'required' })).status).toBe(422);
  server.fault = () => 'cut';
  const away = await chat({ model: 'local/letters/remote' });
  expect([away.status, away.headers.get('retry-after') !== null]).toEqual([503, true]);
});

test('a job that waits for a place on the training server says so in its events and in the log', {
  timeout: 60_000,
}, async () => {
  const server = await TinkerServer.start({ vocabularySize: 709 });
  const logged: LogEntry[] = [];
  const { folder, service } = await serve(server, (entry) => logged.push(entry));
  await expect.poll(() => server.openAdapters).toBe(0);
  await train({
    environment: letters,
    scenarios: [{ word: 'one' }],
    baseUrl: service.url,
    apiKey: service.apiKey,
    runDirectory: `${folder}/run`,
    model: { project: 'letters', name: 'waits', baseModel: 'remote' },
    seed: 1,
    steps: 1,
    groupsPerStep: 1,
    rolloutsPerGroup: 8,
    progress: false,
    onEvent: (event) => {
      // Before the job is requested.
      if (event.type !== 'rollouts' || event.done < event.total) return;
      server.others = server.places;
      server.fault = ({ path }, when) => {
        if (path.endsWith('create_model') && when === 'after') server.others = 0;
        return undefined;
      };
    },
  });
  const waited = logged.find(({ event }) => event === 'job_waits');
  expect(waited).toMatchObject({ level: 'warn', reason: expect.stringContaining('a place for an adapter') });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  onTestFinished(() => client.close());
  const types: string[] = [];
  for await (const event of client.trainingJobs.follow(String(waited?.job))) {
    types.push(event.type);
    if (event.type === 'training_waiting') expect(event.data.reason).toBe(waited?.reason);
  }
  expect(types).toEqual(['training_started', 'training_waiting', 'gradient_step', 'training_ended']);
});
