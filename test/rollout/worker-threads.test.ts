import { callBudget, ModelHandle, runGroups, workerThreads } from 'martingale';
import { afterEach, expect, test } from 'vitest';
import { type FakePolicy, startFakeService } from '../model/fake-service.ts';
import threaded from './environments/threaded.ts';

const environment = new URL('./environments/threaded.ts', import.meta.url);
const echo: FakePolicy = ({ messages }) => ({ text: `re: ${String(messages.at(-1)?.content)}` });
const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0)) await clean();
});

async function open(policy: FakePolicy = echo) {
  const service = await startFakeService({ policy });
  cleanups.push(() => service[Symbol.asyncDispose]());
  return { service, model: new ModelHandle({ client: service.client, name: 'local/p/n:step1' }) };
}

function threads(options: Partial<Parameters<typeof workerThreads>[0]> = {}) {
  const executor = workerThreads({ environment, threads: 2, graceMs: 500, ...options });
  cleanups.push(() => executor.close());
  return executor;
}

type Does =
  | 'say'
  | 'throw'
  | 'exit'
  | 'spin'
  | 'hoard'
  | 'hang'
  | 'stray'
  | 'returnFunction'
  | 'burn'
  | 'misplay';
const scenarios = (...does: Does[]) => does.map((what, id) => ({ does: what, id }));

test('rollouts run in several threads and return their trajectories and outcomes', async () => {
  const { model } = await open();
  const { groups, counts } = await runGroups({
    environment: threaded,
    scenarios: scenarios('burn', 'burn', 'burn'),
    rolloutsPerGroup: 4,
    model,
    executor: threads(),
    seed: 3,
  });
  expect(counts).toEqual({ dispatched: 12, completed: 12, failed: 0, cancelled: 0 });
  const rollouts = groups.flatMap((group) => group.rollouts);
  expect(new Set(rollouts.map(({ trajectory }) => trajectory.metadata.thread)).size).toBe(2);
  for (const [at, group] of groups.entries())
    for (const [index, { seed, trajectory, ...rollout }] of group.rollouts.entries()) {
      const text = `re: ${at}/${seed}`;
      expect(rollout).toMatchObject({
        status: 'completed',
        index,
        reward: 1,
        outcome: { text, at: new Date(0) },
      });
      expect(trajectory.choices.map(({ message }) => message.content)).toEqual([text]);
      expect(trajectory.logs).toEqual([`said ${text}`]);
      expect(trajectory.sampledTokens).toBe(text.length + 1);
      expect(trajectory.toBody()).toMatchObject({ reward: 1, metadata: { group: at, rollout: index, seed } });
      expect(trajectory.policyVersions).toEqual([1]);
    }
});

test('rollouts in threads are the same as in process, seeds and bodies', async () => {
  const { model } = await open();
  const run = async (where: object) => {
    const { groups } = await runGroups({
      environment: threaded,
      scenarios: scenarios('say', 'say'),
      rolloutsPerGroup: 2,
      model,
      seed: 9,
      ...where,
    });
    return groups
      .map((group) => group.toTrajectoryGroup().toBody())
      .map(({ trajectories, ...group }) => ({
        ...group,
        trajectories: trajectories.map(({ start_time: _, metadata, ...body }) => ({
          ...body,
          metadata: { ...metadata, thread: null },
          messages_and_choices: body.messages_and_choices,
        })),
      }));
  };
  expect(await run({ executor: threads() })).toEqual(await run({ concurrency: 4 }));
});

for (const [does, code, message, ...tags] of [
  ['throw', 'RangeError', /out of cheese/],
  ['exit', 'worker_died', /exited with code 3/],
  ['stray', 'worker_died', /nobody catches this/],
  ['hoard', 'worker_died', /memory/i, 'long'],
  ['spin', 'rollout_timeout', /a loop that blocks the thread/],
  ['hang', 'rollout_timeout', /took longer than .*`limits\.turns`/, 'long'],
  ['returnFunction', 'outcome_not_cloneable', /plain data/],
] satisfies [Does, string, RegExp, ...string[]][])
  test(`a rollout that does "${does}" fails with ${code}, and the next runs in a new thread`, {
    tags,
  }, async () => {
    const { model } = await open();
    const executor = threads({ threads: 1, memoryLimitMb: 96 });
    const run = (what: Does, timeoutMs: number) =>
      runGroups({
        environment: threaded,
        scenarios: scenarios(what),
        rolloutsPerGroup: 1,
        model,
        executor,
        timeoutMs,
      });
    const slow = ['spin', 'hang'].includes(does);
    // The start of the thread, which takes seconds on a busy machine, is then no part of the deadline.
    if (slow) await run('say', 30_000);
    const first = await run(does, slow ? 2_000 : 30_000);
    expect(first.counts).toEqual({ dispatched: 1, completed: 0, failed: 1, cancelled: 0 });
    expect(first.groups[0]?.rollouts[0]).toMatchObject({
      status: 'failed',
      failure: { code, message: expect.stringMatching(message) },
      trajectory: { reward: null },
    });
    expect((await run('say', 30_000)).counts).toMatchObject({ completed: 1 });
  });

test('a thread that dies fails its other rollouts; retries run in another thread', {
  tags: ['long'],
}, async () => {
  const { model } = await open();
  const { groups, counts } = await runGroups({
    environment: threaded,
    scenarios: scenarios('hang', 'exit'),
    rolloutsPerGroup: 1,
    model,
    executor: threads({ threads: 1, concurrency: 2 }),
    groupStrategy: { type: 'retry', attempts: 3 },
    timeoutMs: 3_000,
  });
  expect(counts).toEqual({ dispatched: 6, completed: 0, failed: 6, cancelled: 0 });
  expect(groups[0]?.rollouts[0]).toMatchObject({ attempt: 0, failure: { code: 'worker_died' } });
  expect(groups[0]?.droppedBecause).toMatchObject({ code: 'too_few_completed' });
});

test('`onError` makes outcomes in threads too', async () => {
  const { model } = await open();
  const { groups } = await runGroups({
    environment: threaded,
    scenarios: scenarios('misplay', 'throw'),
    rolloutsPerGroup: 1,
    model,
    executor: threads(),
  });
  const [misplayed, thrown] = groups.flatMap((group) => group.rollouts);
  expect(misplayed).toMatchObject({ status: 'completed', reward: 0, outcome: { text: 'no such move' } });
  expect(misplayed?.trajectory).toMatchObject({
    stopReason: 'error:SyntaxError',
    metrics: { scored_errors: 1 },
  });
  expect(thrown).toMatchObject({ status: 'failed', failure: { code: 'RangeError' } });
});

test('a cancelled run cancels rollouts in threads, also those that block their thread', async () => {
  const stop = new AbortController();
  let calls = 0;
  const { model } = await open(({ messages }) => {
    if (++calls === 3) setImmediate(() => stop.abort(new Error('Ctrl-C')));
    return { text: `re: ${String(messages.at(-1)?.content)}` };
  });
  const { counts, groups } = await runGroups({
    environment: threaded,
    scenarios: scenarios('spin', 'hang', 'hang', 'say'),
    rolloutsPerGroup: 1,
    model,
    executor: threads({ concurrency: 3, threads: 3 }),
    signal: stop.signal,
  });
  expect(counts).toEqual({ dispatched: 4, completed: 0, failed: 0, cancelled: 4 });
  for (const { rollouts } of groups)
    expect(rollouts[0]).toMatchObject({
      failure: { code: 'cancelled', message: expect.stringMatching(/Ctrl-C/) },
    });
});

test('calls of all threads share one budget, and a dead thread releases its slots', {
  tags: ['long'],
}, async () => {
  let inFlight = 0;
  let most = 0;
  const { model } = await open(async ({ messages }) => {
    most = Math.max(most, ++inFlight);
    await new Promise((resolve) => setImmediate(resolve));
    inFlight--;
    return { text: `re: ${String(messages.at(-1)?.content)}` };
  });
  const budget = callBudget({ concurrency: 2 });
  const { counts } = await runGroups({
    environment: threaded,
    scenarios: scenarios('say', 'exit', 'throw', 'say', 'exit', 'say'),
    rolloutsPerGroup: 4,
    model: model.with({ budget }),
    executor: threads({ concurrency: 16 }),
    groupStrategy: { type: 'retry', attempts: 3 },
  });
  expect(most).toBeLessThanOrEqual(2);
  expect(counts.dispatched).toBe(counts.completed + counts.failed);
  expect(budget.stats()).toMatchObject({ inFlight: 0, waiting: 0, peak: 2 });
});

test('data that cannot be sent to a thread is named', async () => {
  const { model } = await open();
  const run = async (executor: ReturnType<typeof threads>, given: typeof model = model) => {
    const { groups } = await runGroups({
      environment: threaded,
      scenarios: scenarios('say'),
      rolloutsPerGroup: 1,
      model: given,
      executor,
    });
    const [rollout] = groups[0]?.rollouts ?? [];
    return rollout?.status === 'failed' ? rollout.failure : rollout;
  };
  const broken = threads({ environment: new URL('./environments/broken.ts', import.meta.url) });
  expect(await run(broken)).toMatchObject({ message: expect.stringMatching(/the module is broken/) });
  expect(await run(threads({ exportName: 'notAnEnvironment' }))).toMatchObject({
    code: 'environment_not_exported',
    message: expect.stringMatching(/"notAnEnvironment"/),
  });
  const replayed = new ModelHandle({
    client: model.client,
    name: model.name,
    completions: model.client.chat.completions,
  });
  expect(await run(threads(), replayed)).toMatchObject({ code: 'model_not_movable' });
});

test('a closed executor cancels new rollouts', async () => {
  const { model } = await open();
  const executor = threads();
  await executor.close();
  const { counts } = await runGroups({
    environment: threaded,
    scenarios: scenarios('say'),
    rolloutsPerGroup: 2,
    model,
    executor,
  });
  expect(counts).toEqual({ dispatched: 2, completed: 0, failed: 0, cancelled: 2 });
});

test('impossible options are refused by name', () => {
  expect(() => workerThreads({ environment, threads: 0 })).toThrow(/threads` is 0/);
  expect(() => workerThreads({ environment, concurrency: 1.5 })).toThrow(/concurrency` is 1.5/);
  expect(() => workerThreads({ environment, graceMs: 0 })).toThrow(/graceMs` is 0/);
  expect(() => workerThreads({ environment, memoryLimitMb: -1 })).toThrow(/memoryLimitMb` is -1/);
});
