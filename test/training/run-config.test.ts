import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient, inProcess, ModelHandle, type RolloutExecutor, type RunEvent, train } from 'martingale';
import type { RunConfig } from 'martingale/loop';
import { readRun } from 'martingale/records';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { originOf } from '../../src/training/run-origin.ts';
import { reply } from '../faults/network/faults.ts';
import { type Fault, pass } from '../faults/network/proxy.ts';
import { environment, startTrainingWorld } from '../faults/network/training-world.ts';

let world: Awaited<ReturnType<typeof startTrainingWorld>>;
beforeAll(async () => {
  world = await startTrainingWorld({ knowsKeys: true });
});
afterAll(() => world?.[Symbol.asyncDispose]());

const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));

/** Runs some steps; returns the recorded config and the `run_started` event. */
async function run(name: string, more: object = {}) {
  const events: RunEvent[] = [];
  const runDirectory = join(world.folder, name);
  await train({
    ...world.settings,
    model: { ...world.settings.model, name },
    runDirectory,
    steps: 1,
    onEvent: (event) => events.push(event),
    ...more,
  });
  const config = await (await readRun(runDirectory)).config();
  return { config, started: events.find(({ type }) => type === 'run_started'), runDirectory };
}

async function edit(runDirectory: string, change: (config: RunConfig) => RunConfig) {
  const file = join(runDirectory, 'config.json');
  await writeFile(file, JSON.stringify(change(JSON.parse(await readFile(file, 'utf8')))));
}

test('config.json has the origin of a run and the options that differ from their defaults', async () => {
  const stopWhen = function enough() {
    return false as const;
  };
  const { config } = await run('made', {
    stopWhen,
    config: ({ step }: { step: number }) => ({ learning_rate: 1 / (step + 1) }),
    maxStaleness: 1,
    // Options passed with their default values.
    ...{ onUnexpectedCall: 'error', keepCheckpoints: 2, rolloutTimeoutMs: 600_000 },
    ...{ lostJob: { decision: 'stop' }, jobTimeoutMs: 5_000 },
  });
  expect(config).toMatchObject({
    environment: 'coin toss',
    baseModel: 'scripted-tiny',
    versions: { martingale: version, node: process.versions.node, engine: world.engine.name },
    scenarioSchema: { type: 'object', properties: { id: { type: 'number' } }, required: ['id'] },
  });
  expect(config?.changed).toEqual({
    seed: { value: 3, default: 0 },
    stopWhen: { value: { function: 'enough' }, default: null },
    config: { value: { function: 'config' }, default: {} },
    maxStaleness: { value: 1, default: 0 },
    jobTimeoutMs: { value: 5_000, default: 3_600_000 },
  });
});

test('config.json does not contain the API key', async () => {
  const { client: _, ...settings } = world.settings;
  const runDirectory = join(world.folder, 'secret');
  const apiKey = 'key';
  await train({ ...settings, steps: 1, runDirectory, baseUrl: world.service.url, apiKey });
  const text = await readFile(join(runDirectory, 'config.json'), 'utf8');
  expect(text).not.toContain('apiKey');
  expect(JSON.parse(text).changed).toEqual({ seed: { value: 3, default: 0 } });
});

test('the base model of a handle is the listed one; a schema without a JSON form has a reason', async () => {
  const odd = { ...environment, scenario: z.object({ id: z.number(), when: z.date().optional() }) };
  const model = await world.open();
  const runDirectory = join(world.folder, 'handle');
  const { client: _, ...settings } = world.settings;
  await train({ ...settings, environment: odd, model, steps: 1, runDirectory });
  const config = await (await readRun(runDirectory)).config();
  expect(config?.baseModel).toBe('scripted-tiny');
  expect(config?.scenarioSchema).toEqual({ unavailable: expect.stringMatching(/Date/) });
});

test('a run resumes with other versions, reports them, and keeps its first ones', async () => {
  const { runDirectory } = await run('versions');
  const versions = { martingale: '0.0.1', node: '22.19.0', engine: world.engine.name };
  await edit(runDirectory, (config) => ({ ...config, versions }));
  const { config, started } = await run('versions', { steps: 2, resume: true });
  expect(started).toMatchObject({
    finishedSteps: 1,
    changedVersions: [
      { of: 'martingale', was: '0.0.1', is: version },
      { of: 'node', was: '22.19.0', is: process.versions.node },
    ],
  });
  expect(config?.versions).toEqual(versions);
});

test('a run of a version without these fields resumes', async () => {
  const { runDirectory } = await run('old');
  await edit(runDirectory, (config) => {
    const { baseModel, versions, scenarioSchema, changed, modelAsked, ...old } = config;
    expect([baseModel, versions, scenarioSchema, changed, modelAsked]).not.toContain(undefined);
    return old;
  });
  const { config, started } = await run('old', { steps: 2, resume: true });
  expect(started).toMatchObject({ finishedSteps: 1, changedVersions: [] });
  expect(config?.versions).toBeUndefined();
  expect(config?.baseModel).toBe('scripted-tiny');
});

test('with a service without a list of models only the engine is unknown', async () => {
  const refuse: Fault = async ({ send }) => {
    await send(reply('404 Not Found', { 'content-type': 'application/json' }, '{"detail":"no such path"}'));
  };
  world.proxy.fault = ({ path }) => (path.endsWith('/v1/models') ? refuse : pass);
  const { config } = await run('unlisted');
  expect(config).toMatchObject({ baseModel: 'scripted-tiny', versions: { engine: null } });
});

test('the list of models has a deadline of ten seconds, however often the client retries', async () => {
  const client = createClient({ baseUrl: world.service.url, apiKey: 'key' });
  vi.spyOn(client.inferenceModels, 'list').mockImplementation(
    ({ signal } = {}) =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason))),
  );
  const model = new ModelHandle({ client, name: 'local/p/n:step0' });
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  try {
    const origin = originOf({ model }, model, undefined);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await origin).toMatchObject({ baseModel: null, versions: { engine: null } });
  } finally {
    vi.useRealTimers();
    await client.close();
  }
});

test('config.json has the kind of a custom executor and none of its contents', async () => {
  const executor: RolloutExecutor & { password: string; self?: object } = {
    ...inProcess(),
    password: 'hush',
  };
  executor.self = executor;
  const { config } = await run('executor', { executor });
  expect(config?.changed?.executor).toEqual({ value: { instance: 'Object' }, default: null });
});
