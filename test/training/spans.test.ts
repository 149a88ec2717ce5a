import { generateText, streamText } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { startFakeService } from '../model/fake-service.ts';
import { temporaryFolder } from '../support/files.ts';
import { startRecording } from '../telemetry/recording-sdk.ts';

let recording: ReturnType<typeof startRecording>;
beforeEach(() => {
  recording = startRecording();
});
afterEach(() => recording.stop());

test('spans form one tree: run, step, group, rollout, model call and reward, job', async () => {
  let calls = 0;
  await using service = await startFakeService({ policy: () => ({ text: String(calls++ % 2) }) });
  const environment = defineEnvironment({
    name: 'spans',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ model, scenario: { id } }) => {
      if (id === 0) return (await generateText({ model: model.languageModel, prompt: 'a' })).text;
      return await streamText({ model: model.languageModel, prompt: 'a' }).text;
    },
    rewards: { right: ({ outcome }) => Number(outcome) },
  });
  await train({
    environment,
    scenarios: [{ id: 0 }, { id: 1 }],
    client: service.client,
    model: { project: 'p', name: 'n', baseModel: 'tiny' },
    steps: 1,
    groupsPerStep: 2,
    rolloutsPerGroup: 2,
    concurrency: 1,
    runDirectory: await temporaryFolder(),
  });
  const edges = (name: string) =>
    recording.spans.filter((span) => span.name === name).map(({ parent }) => parent);
  const call = 'chat local/p/n:step0';
  expect(edges('run')).toEqual([undefined]);
  expect(edges('step')).toEqual(['run']);
  expect(edges('group')).toEqual(['step', 'step']);
  expect(edges('rollout')).toEqual(Array(4).fill('group'));
  expect(edges(call)).toEqual(Array(4).fill('rollout'));
  expect(edges('reward')).toEqual(Array(4).fill('rollout'));
  expect(edges('job')).toEqual(['step']);
  expect(recording.spans.every(({ ends }) => ends === 1)).toBe(true);
  for (const { attributes } of recording.spans.filter(({ name }) => name === call)) {
    expect(attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.response.model': 'local/p/n:step0',
      'gen_ai.usage.output_tokens': 2,
    });
  }
  expect(recording.spans.find(({ name }) => name === 'rollout')?.attributes).toMatchObject({
    'martingale.rollout.outcome': 'completed',
    'martingale.reward': expect.any(Number),
  });
});

test('a model call that fails ends its span with the error', async () => {
  await using service = await startFakeService({ policy: () => ({ text: '1', withoutTokenIds: true }) });
  const environment = defineEnvironment({
    name: 'failing',
    scenario: z.object({}),
    rollout: async ({ model }) => (await generateText({ model: model.languageModel, prompt: 'a' })).text,
    rewards: { right: () => 1 },
  });
  const running = train({
    environment,
    scenarios: [{}],
    client: service.client,
    model: { project: 'p', name: 'n', baseModel: 'tiny' },
    steps: 1,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    runDirectory: await temporaryFolder(),
  });
  await expect(running).rejects.toThrow(/token_ids_missing/);
  const failed = recording.spans.filter(({ attributes }) => attributes['error.type'] !== undefined);
  expect(new Set(failed.map(({ name }) => name))).toEqual(
    new Set(['run', 'step', 'rollout', 'chat local/p/n:step0']),
  );
});
