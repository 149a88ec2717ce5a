import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { defineEnvironment, openModel, type RunEvent, sft, train } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { createTrainingJobRequestSchema, logRequestSchema } from '../../src/contract/index.ts';
import { type FakeServiceOptions, startFakeService } from '../model/fake-service.ts';
import { readJsonLines, temporaryFolder } from '../support/files.ts';

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model, seed }) => {
    const { text } = await generateText({ model: model.languageModel, prompt: `${id}:${seed}` });
    return text;
  },
  rewards: { success: ({ outcome }) => Number(outcome) },
});

/** Heads for every other call: the rewards of each group of two differ. */
const alternating = (): FakeServiceOptions['policy'] => {
  let calls = 0;
  return () => ({ text: String(calls++ % 2) });
};

async function open(options: Partial<FakeServiceOptions> = {}) {
  const service = await startFakeService({ policy: alternating(), ...options });
  const runDirectory = join(await temporaryFolder(), 'run');
  const events: RunEvent[] = [];
  const settings = {
    environment,
    scenarios: [0, 1, 2, 3].map((id) => ({ id })),
    client: service.client,
    model: { project: 'shop', name: 'desk', baseModel: 'tiny' },
    steps: 3,
    groupsPerStep: 2,
    rolloutsPerGroup: 2,
    concurrency: 1,
    runDirectory,
    onEvent: (event: RunEvent) => events.push(event),
  } as const;
  return { service, settings, runDirectory, events };
}

const whole = async (path: string) => JSON.parse(await readFile(path, 'utf8'));

test('each step samples from the checkpoint of the step before it', async () => {
  const { service, settings } = await open({
    gradientSteps: [
      { loss: 1, entropy: 2, grad_norm: 3, logprob_difference_max: 1e-5 },
      { loss: 3, entropy: 1, grad_norm: 5, logprob_difference_max: 3e-5 },
    ],
  });
  await using _ = service;
  const result = await train(settings);
  expect(result).toMatchObject({ reason: 'finished', finalStep: 3 });
  expect(result.model.name).toBe('local/shop/desk:step3');
  expect(result.reports.map(({ step, policy }) => [step, policy])).toEqual([
    [0, 'local/shop/desk:step0'],
    [1, 'local/shop/desk:step1'],
    [2, 'local/shop/desk:step2'],
  ]);
  expect(service.requests.map(({ model }) => model)).toEqual(
    [0, 1, 2].flatMap((step) => Array<string>(4).fill(`local/shop/desk:step${step}`)),
  );
  expect(result.reports[0]).toMatchObject({
    reward: 0.5,
    success: 0.5,
    dispatched: 4,
    completed: 4,
    failed: 0,
    cancelled: 0,
    groups: 2,
    groupsWithSignal: 2,
    logprobDifference: 3e-5,
    entropy: 1.5,
    gradientNorm: 4,
    loss: 2,
    klReference: null,
  });
  expect(result.counts).toEqual({ dispatched: 12, completed: 12, failed: 0, cancelled: 0 });
});

test("a report has the job's own counts and its distance from the reference", async () => {
  const { service, settings } = await open({
    gradientSteps: [{ num_groups_submitted: 2, num_groups_without_signal: 1, kl_policy_ref: 0.25 }],
  });
  await using _ = service;
  const config = { kl_penalty_coef: 0.1, kl_penalty_reference_step: 0 };
  const { reports } = await train({ ...settings, steps: 1, config });
  expect(reports).toMatchObject([{ groups: 2, groupsWithSignal: 1, klReference: 0.25, loss: null }]);
  expect(service.jobs[0]?.body.experimental_config).toEqual(config);
});

test('requests to the service match the contract and contain the sampled ids', async () => {
  const { service, settings } = await open();
  await using _ = service;
  await train({ ...settings, config: ({ step, steps }) => ({ learning_rate: (steps - step) / 100 }) });
  expect(service.jobs).toHaveLength(3);
  for (const { body } of service.jobs) {
    const parsed = createTrainingJobRequestSchema.parse(body);
    for (const { trajectories } of parsed.trajectory_groups ?? []) {
      expect(trajectories.map(({ reward }) => reward).sort()).toEqual([0, 1]);
      for (const { messages_and_choices } of trajectories) {
        expect(messages_and_choices[1]).toMatchObject({ token_ids: expect.arrayContaining([1_000_000]) });
      }
    }
  }
  expect(service.jobs.map(({ body }) => body.experimental_config)).toEqual(
    [0.03, 0.02, 0.01].map((learning_rate) => ({ learning_rate })),
  );
  for (const log of service.logs) expect(logRequestSchema.parse(log).split).toBe('train');
  expect(service.logs).toHaveLength(3);
});

test('each scenario of an epoch is drawn once, in an order determined by the seed', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const prompts = async (seed: number, name: string) => {
    const before = service.requests.length;
    await train({ ...settings, seed, runDirectory: `${settings.runDirectory}-${name}`, steps: 2 });
    return service.requests.slice(before).map(({ messages }) => String(messages[0]?.content));
  };
  const drawn = await prompts(1, 'a');
  expect(new Set(drawn.map((prompt) => prompt.split(':')[0])).size).toBe(4);
  expect(await prompts(1, 'b')).toEqual(drawn);
  expect(await prompts(2, 'c')).not.toEqual(drawn);
});

test('the run directory holds the whole run', async () => {
  const { service, settings, runDirectory, events } = await open();
  await using _ = service;
  const result = await train({ ...settings, validation: { scenarios: [{ id: 9 }], everySteps: 2 } });
  expect((await readdir(runDirectory)).sort()).toEqual([
    'config.json',
    'evaluations',
    'events.jsonl',
    'jobs',
    'metrics.jsonl',
    'run.lock',
    'state.json',
    'summary.json',
    'trajectories',
  ]);
  expect(await readJsonLines(join(runDirectory, 'metrics.jsonl'))).toEqual(result.reports);
  const groups = await readJsonLines(join(runDirectory, 'trajectories', 'step-0000.jsonl'));
  expect(groups).toHaveLength(2);
  expect(groups[0]).toMatchObject({ scenario: { id: expect.any(Number) }, failures: [] });
  expect(await whole(join(runDirectory, 'jobs', 'step-0001.json'))).toMatchObject({
    idempotencyKey: service.jobs[1]?.idempotencyKey,
    jobId: service.jobs[1]?.id,
    trajectories: 'trajectories/step-0001.jsonl',
  });
  expect(await whole(join(runDirectory, 'summary.json'))).toMatchObject({ reason: 'finished', steps: 3 });
  const written = await readJsonLines(join(runDirectory, 'events.jsonl'));
  // A run without a warm start has only phases of validations.
  const kept = events.filter(({ type }) => type !== 'rollouts' && type !== 'phase').map(({ type }) => type);
  expect(written.map(({ type }) => type)).toEqual(kept);
  expect(events.filter((event) => event.type === 'evaluated').map(({ name }) => name)).toEqual([
    'before',
    'after-step-2',
    'after',
  ]);
  expect(kept[0]).toBe('run_started');
  expect(kept.at(-1)).toBe('run_ended');
});

test('the trajectories and the key of a job are on disk before the job is requested', async () => {
  const seen: unknown[] = [];
  const { service, settings, runDirectory } = await open({
    beforeJob: async () => {
      const groups = await readJsonLines(join(runDirectory, 'trajectories', 'step-0000.journal.jsonl'));
      seen.push(groups.length, await whole(join(runDirectory, 'jobs', 'step-0000.json')));
    },
  });
  await using _ = service;
  await train({ ...settings, steps: 1 });
  const [job] = service.jobs;
  expect(seen).toEqual([2, expect.objectContaining({ idempotencyKey: job?.idempotencyKey })]);
  expect(seen[1]).not.toHaveProperty('jobId');
});

test('a run stopped when its job has ended keeps the new checkpoint', async () => {
  const stop = new AbortController();
  const { service, settings } = await open();
  await using _ = service;
  const result = await train({
    ...settings,
    signal: stop.signal,
    onEvent: (event) => event.type === 'job' && event.status === 'ended' && stop.abort(new Error('Ctrl-C')),
  });
  expect(result).toMatchObject({ reason: 'stopped', finalStep: 1, counts: { dispatched: 4, cancelled: 0 } });
  expect(result.reports).toHaveLength(1);
});

test('a run does not write into a directory that is not empty', async () => {
  const { service, settings } = await open();
  await using _ = service;
  await train({ ...settings, steps: 1 });
  await expect(train(settings)).rejects.toThrow(/not empty/);
});

test('only the newest checkpoints of the run stay; those from before it always do', async () => {
  const { service, settings } = await open();
  await using _ = service;
  await train({ ...settings, steps: 4, keepCheckpoints: 2 });
  expect(service.steps()).toEqual([0, 3, 4]);
  expect(service.deleted).toEqual([1, 2]);
});

test('a validation emits its progress from its beginning to its end', async () => {
  const { service, settings, events } = await open();
  await using _ = service;
  const validation = { scenarios: [{ id: 8 }, { id: 9 }], rolloutsPerScenario: 50 };
  await train({ ...settings, steps: 1, validation });
  const told = events.flatMap((event) => (event.type === 'phase' ? [event] : []));
  expect(new Set(told.map(({ phase }) => phase))).toEqual(new Set(['evaluation before', 'evaluation after']));
  const before = told.filter(({ phase }) => phase === 'evaluation before');
  expect(before[0]).toEqual({ type: 'phase', phase: 'evaluation before', done: 0, total: 100, metrics: {} });
  expect(before.at(-1)).toMatchObject({ done: 100, total: 100 });
  expect(before).toHaveLength(101);
  const done = before.map((event) => event.done);
  expect(done).toEqual([...done].sort((a, b) => a - b));
  const order = events.map((event) => (event.type === 'phase' ? event.phase : event.type));
  expect(order.indexOf('evaluated')).toBeGreaterThan(order.lastIndexOf('evaluation before'));
});

test('a step without a signal requests no job, and the policy stays', async () => {
  const { service, settings } = await open({ policy: () => ({ text: '1' }) });
  await using _ = service;
  const result = await train(settings);
  expect(service.jobs).toHaveLength(0);
  expect(result.finalStep).toBe(0);
  expect(result.reports).toHaveLength(3);
  expect(result.reports[2]).toMatchObject({
    groupsWithSignal: 0,
    loss: null,
    policy: 'local/shop/desk:step0',
  });
});

test('with an entropy bonus a step without a signal trains too', async () => {
  const { service, settings } = await open({ policy: () => ({ text: '1' }) });
  await using _ = service;
  await train({ ...settings, steps: 1, config: { entropy_coefficient: 0.01 } });
  expect(service.jobs).toHaveLength(1);
});

test('failed rollouts are not in the job, and are in the journal with their reason', async () => {
  let calls = 0;
  const { service, settings, runDirectory } = await open({
    policy: () => ({ text: ['1', '0', 'not a number'][calls++ % 3] ?? '' }),
  });
  await using _ = service;
  const result = await train({ ...settings, steps: 1, groupsPerStep: 1, rolloutsPerGroup: 3 });
  expect(result.reports[0]).toMatchObject({
    dispatched: 3,
    completed: 2,
    failed: 1,
    cancelled: 0,
    reward: 0.5,
  });
  const [group] = await readJsonLines(join(runDirectory, 'trajectories', 'step-0000.jsonl'));
  expect(group.trajectories).toHaveLength(2);
  expect(group.failures).toMatchObject([{ rollout: 2, status: 'failed', code: 'reward_failed' }]);
  expect(service.jobs[0]?.body).toMatchObject({
    trajectory_groups: [{ exceptions: [{ type: 'reward_failed' }] }],
  });
});

test('a step in which no rollout completes ends the run with the reasons', async () => {
  const { service, settings, runDirectory } = await open({
    policy: () => ({ text: 'x', withoutTokenIds: true }),
  });
  await using _ = service;
  await expect(train(settings)).rejects.toThrow(
    /^No rollout of step 0 completed: 4 x unexpected_call_token_ids_missing/,
  );
  expect(await whole(join(runDirectory, 'summary.json'))).toMatchObject({
    reason: 'failed',
    error: { code: 'no_completed_rollouts' },
    counts: { dispatched: 4, failed: 4 },
  });
});

test('a failed job ends the run with its reason and leaves the directory readable', async () => {
  const { service, settings, runDirectory } = await open({ jobs: 'fails' });
  await using _ = service;
  await expect(train(settings)).rejects.toThrow(/the engine ran out of memory/);
  expect(await whole(join(runDirectory, 'summary.json'))).toMatchObject({ reason: 'failed' });
  expect(await readJsonLines(join(runDirectory, 'trajectories', 'step-0000.jsonl'))).toHaveLength(2);
});

test('a job past its deadline is cancelled and ends the run', async () => {
  const { service, settings } = await open({ jobs: 'hangs' });
  await using _ = service;
  await expect(train({ ...settings, jobTimeoutMs: 100 })).rejects.toThrow(/did not end within 100 ms/);
  expect(service.jobs[0]?.cancelled).toBe(true);
});

test('a run stopped while it samples cancels its rollouts and returns', async () => {
  const stop = new AbortController();
  let calls = 0;
  const { service, settings, runDirectory, events } = await open({
    policy: async () => {
      if (++calls > 6) {
        stop.abort(new Error('Ctrl-C'));
        await new Promise(() => undefined);
      }
      return { text: String(calls % 2) };
    },
  });
  await using _ = service;
  const result = await train({ ...settings, signal: stop.signal });
  expect(result).toMatchObject({ reason: 'stopped', finalStep: 1 });
  expect(result.reports).toHaveLength(1);
  expect(result.counts).toEqual({ dispatched: 8, completed: 6, failed: 0, cancelled: 2 });
  expect(events.at(-1)).toMatchObject({ type: 'run_ended', reason: 'stopped' });
  expect(await whole(join(runDirectory, 'summary.json'))).toMatchObject({ reason: 'stopped' });
  expect(await readJsonLines(join(runDirectory, 'trajectories', 'step-0001.jsonl'))).toHaveLength(2);
});

test('a run stopped while it trains cancels the job', async () => {
  const stop = new AbortController();
  const { service, settings } = await open({ jobs: 'hangs' });
  await using _ = service;
  const result = await train({
    ...settings,
    signal: stop.signal,
    onEvent: (event) => event.type === 'job' && event.status === 'running' && stop.abort(new Error('Ctrl-C')),
  });
  expect(result.reason).toBe('stopped');
  expect(service.jobs[0]?.cancelled).toBe(true);
});

test('a handle pinned to an older checkpoint is refused: jobs train the newest', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const { model } = await train({ ...settings, steps: 1 });
  const { client, ...rest } = settings;
  const again = { ...rest, runDirectory: `${settings.runDirectory}-2` };
  await expect(train({ ...again, client, model } as never)).rejects.toThrow(/has its own client/);
  await expect(train({ ...again, model: model.at(0) })).rejects.toThrow(
    /not the newest checkpoint, which is step 1/,
  );
});

test('impossible options are refused by name', async () => {
  const { service, settings } = await open();
  await using _ = service;
  await expect(train({ ...settings, rolloutsPerGroup: 1 })).rejects.toThrow(/`rolloutsPerGroup` is 1/);
  await expect(train({ ...settings, scenarios: [] })).rejects.toThrow(/`scenarios` is empty/);
  const misfit = [...settings.scenarios, { other: 1 }] as typeof settings.scenarios;
  await expect(train({ ...settings, scenarios: misfit })).rejects.toThrow(`Scenario ${misfit.length - 1} `);
  await expect(train({ ...settings, concurrency: 0 })).rejects.toThrow(/`concurrency` is 0/);
  await expect(train({ ...settings, rolloutTimeoutMs: 0 })).rejects.toThrow(/`rolloutTimeoutMs` is 0/);
  await expect(train({ ...settings, jobTimeoutMs: 2 ** 31 })).rejects.toThrow(/`jobTimeoutMs` is 2147483648/);
  const validation = { scenarios: [{ id: 0 }], rolloutsPerScenario: 0 };
  await expect(train({ ...settings, validation })).rejects.toThrow(/`validation.rolloutsPerScenario` is 0/);
  expect(await readdir(join(settings.runDirectory, '..'))).toEqual([]);
});

test('a run that fails before its model is open leaves no directory', async () => {
  const { service, settings } = await open();
  await service[Symbol.asyncDispose]();
  await expect(train(settings)).rejects.toMatchObject({ code: 'client_closed' });
  expect(await readdir(join(settings.runDirectory, '..'))).toEqual([]);
});

test('supervised training uploads the conversations and returns the new checkpoint', async () => {
  const { service, events } = await open();
  await using _ = service;
  const model = await openModel({ client: service.client, project: 'shop', name: 'desk', baseModel: 'tiny' });
  const conversation = {
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'hello' },
    ],
  } as const;
  const result = await sft({
    model,
    examples: [{ messages: [...conversation.messages] }],
    batchSize: 1,
    learningRate: 0.01,
    onEvent: (event) => events.push(event),
  });
  expect(result).toMatchObject({ examples: 1, gradientSteps: 1, metrics: { loss: 1 } });
  expect(result.model.name).toBe('local/shop/desk:step1');
  expect(service.uploaded()).toBe(`${JSON.stringify(conversation)}\n`);
  expect(service.jobs[0]).toMatchObject({
    kind: 'sft',
    body: { training_data_url: 'upload:1', config: { batch_size: 1, learning_rate: 0.01 } },
  });
  expect(events.at(-1)).toMatchObject({ type: 'phase', phase: 'supervised', done: 1, total: 1 });
});
