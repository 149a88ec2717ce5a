import { join } from 'node:path';
import { generateText, Output } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { followJob } from 'martingale/loop';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { baseModel, type RealService, startRealService } from '../model/real-service.ts';

let service: RealService;
beforeAll(async () => {
  service = await startRealService();
});
afterAll(() => service?.close());

/** Only one reply is allowed, so it contains no decision. Rewards do not depend on it. */
let rewarded = 0;
const environment = defineEnvironment({
  name: 'forced',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ model, signal }) => {
    const output = Output.choice({ options: ['heads'] });
    const call = { model: model.languageModel, prompt: 'toss', output, abortSignal: signal };
    return (await generateText(call)).output;
  },
  rewards: { success: () => rewarded++ % 2 },
});

test('a run continues from the old checkpoint after a job that trained nothing, and reports why', async () => {
  const warnings: Error[] = [];
  const listen = (warning: Error) => warnings.push(warning);
  process.on('warning', listen);
  const settings = {
    environment,
    scenarios: [{ id: 1 }],
    client: service.client,
    model: { project: 'coins', name: 'forced', baseModel },
    steps: 2,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    runDirectory: join(service.folder, 'run'),
  };
  const result = await train(settings);
  process.off('warning', listen);
  expect(result).toMatchObject({ reason: 'finished', model: { name: 'local/coins/forced:step0' } });
  expect(result.reports.map(({ policy, groupsWithSignal }) => [policy, groupsWithSignal])).toEqual([
    ['local/coins/forced:step0', 0],
    ['local/coins/forced:step0', 0],
  ]);
  const told = warnings.filter((warning) => 'code' in warning && warning.code === 'martingale_job_untrained');
  expect(told.map(({ message }) => message)).toEqual(
    [0, 1].map((step) => expect.stringMatching(`job of step ${step} took no gradient step.*alternative`)),
  );
  const further = await train({ ...settings, steps: 3, resume: true });
  expect(further.reports.at(-1)?.policy).toBe('local/coins/forced:step0');
});

test('a job without a signal, requested elsewhere, is followed to its end', async () => {
  const { client } = service;
  const { id } = await client.models.create({ project: 'coins', name: 'equal', base_model: baseModel });
  const ask = { role: 'user', content: 'toss' } as const;
  const { choices } = await client.chat.completions.create({
    model: 'local/coins/equal',
    messages: [ask],
    structured_outputs: { choice: ['heads', 'tails'] },
    n: 2,
  });
  const trajectories = choices.map((choice) => ({ messages_and_choices: [ask, choice], reward: 1 }));
  const job = await client.trainingJobs.create({ model_id: id, trajectory_groups: [{ trajectories }] });
  const totals: (number | null)[] = [];
  const outcome = await followJob({ client, jobId: job.id, onProgress: ({ total }) => totals.push(total) });
  expect(outcome).toMatchObject({
    gradientSteps: [],
    untrained: { reason: 'no_signal', metrics: { num_groups_submitted: 1, num_groups_trainable: 0 } },
  });
  expect(totals).toEqual([0, 0]);
  // A run that is stopped just after its job has ended: there is nothing to cancel, and nothing to warn of.
  const warn = vi.spyOn(process, 'emitWarning');
  onTestFinished(() => warn.mockRestore());
  const signal = AbortSignal.abort(new Error('Ctrl-C'));
  await expect(followJob({ client, jobId: job.id, signal })).rejects.toThrow('Ctrl-C');
  expect(warn).not.toHaveBeenCalled();
});
