import { generateText } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { startFakeService } from '../model/fake-service.ts';
import { temporaryFolder } from '../support/files.ts';

let rewarded = 0;
const environment = defineEnvironment({
  name: 'tossed',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ model, signal }) =>
    (await generateText({ model: model.languageModel, prompt: 'toss', abortSignal: signal })).text,
  rewards: { success: () => rewarded++ % 2 },
});

async function run(lostJobs: number) {
  const service = await startFakeService({ policy: () => ({ text: 'heads' }), lostJobs });
  onTestFinished(() => service[Symbol.asyncDispose]());
  const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  onTestFinished(() => warnings.mockRestore());
  const ended = train({
    ...{ environment, scenarios: [{ id: 1 }], client: service.client, runDirectory: await temporaryFolder() },
    ...{
      model: { project: 'p', name: 'n', baseModel: 'fake' },
      steps: 1,
      groupsPerStep: 1,
      rolloutsPerGroup: 2,
    },
  });
  const result = await ended.catch((error: unknown) => error);
  const told = warnings.mock.calls
    .map(([message]) => String(message))
    .filter((text) => text.includes('requested again'));
  return { result, told, keys: service.jobs.map(({ idempotencyKey }) => idempotencyKey) };
}

test('a job that failed because machines went away is requested again twice, with new keys', async () => {
  const { result, told, keys } = await run(2);
  expect(result).toMatchObject({ reason: 'finished' });
  expect(new Set(keys).size).toBe(3);
  expect(told).toEqual([
    expect.stringContaining(
      'The whole service ended 40 times. No checkpoint was created. It is requested again, 1 of 2 times.',
    ),
    expect.stringContaining('2 of 2 times'),
  ]);
});

test('after that the run ends with the reason, and can be resumed', async () => {
  const { result, keys } = await run(3);
  expect(result).toMatchObject({ code: 'training_job_failed', isProcessLost: true });
  expect(keys).toHaveLength(3);
});
