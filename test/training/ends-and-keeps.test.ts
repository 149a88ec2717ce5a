import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import {
  constant,
  cosine,
  defineEnvironment,
  earlyStop,
  linear,
  type RunEvent,
  ScenarioSet,
  type TrainOptions,
  train,
  warmup,
} from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { type FakeServiceOptions, startFakeService } from '../model/fake-service.ts';
import { temporaryFolder } from '../support/files.ts';

const scenario = z.object({ id: z.number() });
const environment = defineEnvironment({
  name: 'coin toss',
  scenario,
  rollout: async ({ scenario: { id }, model }) =>
    (await generateText({ model: model.languageModel, prompt: String(id) })).text,
  rewards: { success: ({ outcome }) => Number(outcome) },
});

/** Heads for every other call in training. In validation (scenario 9), `scores` decides by the checkpoint's step. */
async function open(scores: readonly number[] = [], options: Partial<FakeServiceOptions> = {}) {
  let calls = 0;
  const service = await startFakeService({
    policy: ({ messages, model }) =>
      messages[0]?.content === '9'
        ? { text: String(scores[Number(String(model).split(':step')[1])] ?? 0) }
        : { text: String(calls++ % 2) },
    ...options,
  });
  const settings: TrainOptions<typeof scenario, string> = {
    environment,
    scenarios: [0, 1, 2, 3].map((id) => ({ id })),
    client: service.client,
    model: { project: 'shop', name: 'desk', baseModel: 'tiny' },
    steps: 6,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    concurrency: 1,
    runDirectory: join(await temporaryFolder(), 'run'),
  };
  return { service, settings };
}
const validation = { scenarios: [{ id: 9 }], everySteps: 1 };

test('a run ends early, with the reason, if its validation stops rising', async () => {
  const { service, settings } = await open([0.1, 0.5, 0.6, 0.55, 0.6, 0.9]);
  await using _ = service;
  const stopWhen = earlyStop({ metric: 'validation', patience: 2 });
  const result = await train({ ...settings, validation, stopWhen });
  expect(result).toMatchObject({
    reason: 'early_stop',
    because: expect.stringContaining('above 0.6 2 times'),
  });
  expect(result.reports).toHaveLength(4);
  expect(result.evaluations.map(({ reward }) => reward)).toEqual([0.1, 0.5, 0.6, 0.55, 0.6]);
  expect(result.validation.after?.policy).toBe('local/shop/desk:step4');
  const again = await train({ ...settings, validation, stopWhen, resume: true });
  expect(again).toMatchObject({ reason: 'early_stop', because: result.because, finalStep: 4 });
  expect(again.reports).toEqual(result.reports);
});

test('a run ends at its goal', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const result = await train({ ...settings, stopWhen: earlyStop({ metric: 'reward', goal: 0.5 }) });
  expect(result).toMatchObject({ reason: 'early_stop', because: 'reward is 0.5; the goal was 0.5' });
  expect(result.reports).toHaveLength(1);
  expect(() => earlyStop({ metric: 'reward' })).toThrow(/neither `patience` nor `goal`/);
  expect(() => earlyStop({ metric: 'reward', patience: 0 })).toThrow(/`patience` is 0/);
});

test.each([0, 2])(
  'a budget ends the run after the step that uses it up; staleness %i',
  async (maxStaleness) => {
    const { service, settings } = await open();
    await using _ = service;
    const prices = { promptTokensPerMillion: 1e6, sampledTokensPerMillion: 2e6 };
    const one = await train({ ...settings, steps: 1, prices, runDirectory: `${settings.runDirectory}-one` });
    const { promptTokens, sampledTokens, cost } = one.usage;
    expect(cost).toBe(promptTokens + 2 * sampledTokens);
    expect(one.reports[0]?.usage).toEqual(one.usage);
    const tokens = 2 * (promptTokens + sampledTokens);
    const result = await train({ ...settings, maxStaleness, budget: { tokens }, validation: undefined });
    expect(result).toMatchObject({ reason: 'budget', because: `${tokens} of ${tokens} tokens are used` });
    expect(result.reports).toHaveLength(2);
    const { dispatched, completed, cancelled, failed } = result.counts;
    expect(dispatched).toBe(completed + cancelled + failed);
    expect(service.jobs).toHaveLength(3);
    const more = { ...settings, maxStaleness, prices: undefined, resume: true } as const;
    expect(await train({ ...more, budget: { tokens: 2 * tokens } })).toMatchObject({ reason: 'budget' });
  },
);

test('the checkpoints with the best validations stay and are reported', async () => {
  const { service, settings } = await open([0.1, 0.2, 0.9, 0.3, 0.2, 0.4, 0.3]);
  await using _ = service;
  const keepCheckpoints = { newest: 1, best: 1 };
  const result = await train({ ...settings, validation, keepCheckpoints });
  expect(service.steps()).toEqual([0, 2, 6]);
  expect(result.evaluations).toHaveLength(7);
  expect(result.best).toMatchObject({ step: 2, score: 0.9 });
  expect(result.best?.model.name).toBe('local/shop/desk:step2');
});

test('impossible options are refused by name', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const refused = (more: object, message: RegExp) =>
    expect(train({ ...settings, ...more })).rejects.toThrow(message);
  await refused({ maxStaleness: -1 }, /`maxStaleness` is -1/);
  await refused({ budget: { tokens: 0 } }, /`budget.tokens` is 0/);
  await refused({ budget: { cost: 1 } }, /`budget.cost` needs `prices`/);
  await refused({ keepCheckpoints: { newest: 0 } }, /`keepCheckpoints.newest` is 0/);
  await refused({ keepCheckpoints: { newest: 1, best: 1 } }, /but `validation` is not set/);
  await refused({ resume: true, runDirectory: undefined }, /`resume` needs `runDirectory`/);
  await refused({ client: undefined }, /To open a model, pass a `client`/);
});

test('a listener that throws causes one warning, and the run continues', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const warnings: string[] = [];
  const listen = (warning: Error & { code?: string }) => {
    if (warning.code === 'martingale_listener_failed') warnings.push(warning.message);
  };
  process.on('warning', listen);
  const onEvent = (event: RunEvent) => {
    if (event.type === 'job') throw new Error('a bug in the view');
  };
  const result = await train({ ...settings, steps: 2, onEvent });
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', listen);
  expect(result.reason).toBe('finished');
  expect(warnings).toEqual([expect.stringContaining('a bug in the view')]);
});

test('checkpoints that could not be deleted are deleted after the next step', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const { checkpoints } = service.client.models;
  const remove = checkpoints.delete.bind(checkpoints);
  let refusals = 1;
  checkpoints.delete = (...call) => (refusals-- > 0 ? Promise.reject(new Error('not now')) : remove(...call));
  const result = await train({ ...settings, steps: 4, keepCheckpoints: 1 });
  expect(result.reason).toBe('finished');
  expect(service.steps()).toEqual([0, 4]);
});

test('the end of the source ends the run; reports have the metrics of the rollouts', async () => {
  const { service, settings } = await open([], {
    gradientSteps: [{ kl_div: 0.01, clipped_fraction: 0.25 }],
  });
  await using _ = service;
  const scenarios = ScenarioSet.of([0, 1, 2].map((id) => ({ id })));
  const result = await train({ ...settings, scenarios, groupsPerStep: 2 });
  expect(result.reports.map(({ groups }) => groups)).toEqual([2, 1]);
  const because = 'the scenarios ended after step 2 of 6; `repeat()` of a set draws them again';
  expect(result).toMatchObject({ reason: 'finished', because });
  expect(result.reports[0]).toMatchObject({
    rewardDeviation: 0.5,
    klSampler: 0.01,
    clippedShare: 0.25,
    staleness: { mean: 0, max: 0 },
    replyTokens: { mean: 2, max: 2 },
    repeatedShare: 0,
    failures: {},
    credit: 'none',
    metrics: { success: 0.5 },
  });
  const summary = JSON.parse(await readFile(join(result.runDirectory, 'summary.json'), 'utf8'));
  expect(summary).toMatchObject({ reason: 'finished', because });
  const runDirectory = join(await temporaryFolder(), 'none');
  await expect(train({ ...settings, scenarios: ScenarioSet.of([]), runDirectory })).rejects.toThrow(
    '`scenarios` is empty: there is nothing to run.',
  );
});

test('schedules go from their first value to their last', () => {
  const values = (schedule: typeof linear extends (...a: never[]) => infer S ? S : never, steps: number) =>
    Array.from({ length: steps }, (_, step) => schedule({ step, steps }));
  expect(values(constant(3), 3)).toEqual([3, 3, 3]);
  expect(values(linear({ from: 4, to: 0 }), 5)).toEqual([4, 3, 2, 1, 0]);
  expect(values(cosine({ from: 2, to: 0 }), 3)).toEqual([2, expect.closeTo(1), 0]);
  expect(values(warmup({ steps: 3, schedule: linear({ from: 4, to: 0 }) }), 6)).toEqual([1, 2, 3, 4, 2, 0]);
  expect(values(linear({ from: 4, to: 0 }), 1)).toEqual([4]);
});
