import { once } from 'node:events';
import { generateText } from 'ai';
import { currentTrajectory, defineEnvironment, inProcess, ModelHandle, runGroups } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { type FakePolicy, startFakeService } from '../model/fake-service.ts';

const scenario = z.object({ id: z.number() });
const echo: FakePolicy = ({ messages }) => ({ text: `re: ${String(messages.at(-1)?.content)}` });

async function open(policy: FakePolicy = echo) {
  const service = await startFakeService({ policy });
  return { service, model: new ModelHandle({ client: service.client, name: 'local/p/n:step1' }) };
}

const asking = defineEnvironment({
  name: 'asking',
  scenario,
  rollout: async ({ scenario: { id }, model, signal, seed }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: `${id}/${seed}`,
      abortSignal: signal,
    });
    return text;
  },
  rewards: { right: ({ outcome, scenario: { id } }) => Number(outcome.startsWith(`re: ${id}/`)) },
});

const scenarios = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));

test('1,000 concurrent rollouts do not mix, and come back in order', { tags: ['long'] }, async () => {
  const { service, model } = await open();
  await using _ = service;
  const { groups, counts } = await runGroups({
    environment: asking,
    scenarios: scenarios(125),
    rolloutsPerGroup: 8,
    model,
    concurrency: 1000,
    seed: 1,
  });
  expect(counts).toEqual({ dispatched: 1000, completed: 1000, failed: 0, cancelled: 0 });
  for (const [at, group] of groups.entries()) {
    expect(group.scenario.id).toBe(at);
    for (const [index, rollout] of group.rollouts.entries()) {
      expect(rollout.index).toBe(index);
      const { choices, reward } = rollout.trajectory;
      expect(choices.map(({ message }) => message.content)).toEqual([`re: ${at}/${rollout.seed}`]);
      expect(reward).toBe(1);
    }
  }
  expect(new Set(groups.flatMap(({ rollouts }) => rollouts.map(({ seed }) => seed))).size).toBe(1000);
});

test('the same seed gives the same seeds to rollouts and calls', async () => {
  const { service, model } = await open();
  await using _ = service;
  const run = async (seed: number) => {
    const before = service.requests.length;
    await runGroups({ environment: asking, scenarios: scenarios(3), rolloutsPerGroup: 2, model, seed });
    return service.requests
      .slice(before)
      .map(({ messages, seed: sent }) => `${messages[0]?.content} ${sent}`)
      .sort();
  };
  expect(await run(4)).toEqual(await run(4));
  expect(await run(4)).not.toEqual(await run(5));
});

test('each failure of a rollout has its defined end, and the counts balance', async () => {
  const { service, model } = await open();
  await using _ = service;
  const mixed = defineEnvironment({
    name: 'mixed',
    scenario,
    rollout: async ({ scenario: { id }, model: policy }) => {
      if (id === 0) throw new Error('the tool broke');
      if (id === 1) return new Promise<string>(() => undefined);
      if (id === 2) return 'no call';
      const { text } = await generateText({ model: policy.languageModel, prompt: String(id) });
      return text;
    },
    rewards: {
      right: ({ scenario: { id } }) => {
        if (id === 3) throw new Error('no judge');
        return id === 4 ? new Promise<number>(() => undefined) : 1;
      },
    },
  });
  const { groups, counts } = await runGroups({
    environment: mixed,
    scenarios: scenarios(6),
    rolloutsPerGroup: 2,
    model,
    timeoutMs: 1000,
  });
  expect(counts).toEqual({ dispatched: 12, completed: 2, failed: 10, cancelled: 0 });
  const ends = groups.map(({ rollouts: [first] }) =>
    first?.status === 'completed' ? first.reward : first?.failure.code,
  );
  expect(ends).toEqual([
    'Error',
    'rollout_timeout',
    'nothing_recorded',
    'reward_failed',
    'rollout_timeout',
    1,
  ]);
  expect(groups[3]?.rollouts[0]?.trajectory.reward).toBeNull();
  expect(groups[0]?.toTrajectoryGroup().toBody()).toMatchObject({
    trajectories: [],
    exceptions: [{ type: 'Error', message: 'the tool broke' }, {}],
  });
});

test('a metric that is not a number fails its rollout, not the log of the step', async () => {
  const { service, model } = await open();
  await using _ = service;
  const measuring = defineEnvironment({
    name: 'measuring',
    scenario,
    rollout: async ({ scenario: { id }, model: policy, trajectory }) => {
      await generateText({ model: policy.languageModel, prompt: String(id) });
      trajectory.metrics.share = id / id;
    },
    rewards: { done: () => 1 },
  });
  const { groups } = await runGroups({
    environment: measuring,
    scenarios: scenarios(2),
    rolloutsPerGroup: 1,
    model,
  });
  expect(groups.flatMap(({ rollouts }) => rollouts)).toMatchObject([
    {
      status: 'failed',
      failure: { code: 'metric_not_finite', message: expect.stringMatching(/share.*NaN/) },
    },
    { status: 'completed', reward: 1 },
  ]);
});

test('a deadline longer than a timer supports does not pass at once', async () => {
  const { service, model } = await open();
  await using _ = service;
  const { counts } = await runGroups({
    environment: asking,
    scenarios: scenarios(1),
    rolloutsPerGroup: 2,
    model,
    timeoutMs: Number.POSITIVE_INFINITY,
  });
  expect(counts).toMatchObject({ completed: 2 });
});

test('an unexpected call fails its rollout also if the agent swallows the error', async () => {
  const { service, model } = await open(() => ({ text: 'x', model: 'base' }));
  await using _ = service;
  const swallowing = defineEnvironment({
    name: 'swallowing',
    scenario,
    rollout: async ({ model: policy }) => {
      await generateText({ model: policy.languageModel, prompt: 'a' }).catch(() => undefined);
      return 'fine';
    },
    rewards: { right: () => 1 },
  });
  const { groups } = await runGroups({
    environment: swallowing,
    scenarios: scenarios(1),
    rolloutsPerGroup: 1,
    model,
  });
  expect(groups[0]?.rollouts[0]).toMatchObject({
    status: 'failed',
    failure: { code: 'unexpected_call_base_model' },
  });
});

test('an aborted run cancels unfinished rollouts and keeps finished ones', async () => {
  const stop = new AbortController();
  let answered = 0;
  const { service, model } = await open(async ({ messages }) => {
    if (++answered > 4) {
      stop.abort(new Error('Ctrl-C'));
      await new Promise(() => undefined);
    }
    return { text: `re: ${String(messages[0]?.content)}` };
  });
  await using _ = service;
  const { counts, groups } = await runGroups({
    environment: asking,
    scenarios: scenarios(10),
    rolloutsPerGroup: 2,
    model,
    concurrency: 1,
    signal: stop.signal,
  });
  expect(counts).toEqual({ dispatched: 20, completed: 4, failed: 0, cancelled: 16 });
  expect(groups[9]?.rollouts[1]).toMatchObject({ status: 'cancelled', failure: { code: 'cancelled' } });
});

test('a call that outlives its rollout is stopped and never recorded', async () => {
  const { service, model } = await open();
  await using _ = service;
  const late = Promise.withResolvers<unknown>();
  const careless = defineEnvironment({
    name: 'careless',
    scenario,
    rollout: async ({ model: policy }) => {
      await generateText({ model: policy.languageModel, prompt: 'in time' });
      const signal = currentTrajectory()?.signal;
      if (!signal) throw new TypeError('no trajectory');
      void once(signal, 'abort').then(() =>
        late.resolve(generateText({ model: policy.languageModel, prompt: 'late' }).catch((error) => error)),
      );
      return 'done';
    },
    rewards: { right: () => 1 },
  });
  const { groups } = await runGroups({
    environment: careless,
    scenarios: scenarios(1),
    rolloutsPerGroup: 1,
    model,
  });
  expect(await late.promise).toMatchObject({ code: 'trajectory_closed' });
  expect(groups[0]?.trajectories[0]?.choices).toHaveLength(1);
});

test('an agent that swallows every error and retries forever delays neither its end nor other rollouts', async () => {
  const { service, model } = await open();
  await using _ = service;
  let stubborn = true;
  const asking = defineEnvironment({
    name: 'stubborn',
    scenario,
    limits: { turns: 1 },
    rollout: async ({ model: policy, scenario: { id } }) => {
      const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'again' }] }];
      do {
        try {
          await policy.languageModel.doGenerate({ prompt });
        } catch {
          // Ignore the error, as careless agents do.
        }
      } while (id === 0 && stubborn);
    },
    rewards: { done: () => 1 },
  });
  const { groups } = await runGroups({
    environment: asking,
    scenarios: scenarios(2),
    rolloutsPerGroup: 1,
    model,
    timeoutMs: 1000,
  });
  stubborn = false;
  expect(groups.map(({ rollouts: [first] }) => first?.status)).toEqual(['failed', 'completed']);
});

test('judges called in rewards are not recorded as the policy', async () => {
  const { service, model } = await open();
  await using _ = service;
  const judged = defineEnvironment({
    name: 'judged',
    scenario,
    rollout: async ({ model: policy }) =>
      (await generateText({ model: policy.languageModel, prompt: 'a' })).text,
    rewards: {
      judged: async ({ outcome }) =>
        (await generateText({ model: model.languageModel, prompt: outcome })).text.length,
    },
  });
  const { groups } = await runGroups({
    environment: judged,
    scenarios: scenarios(1),
    rolloutsPerGroup: 1,
    model,
  });
  expect(groups[0]?.trajectories[0]?.choices).toHaveLength(1);
  expect(service.requests).toHaveLength(2);
});

test('a scenario that does not match its schema is refused by its index before anything runs', async () => {
  const { service, model } = await open();
  await using _ = service;
  const wrong = [{ id: 1 }, { id: 'two' as unknown as number }];
  const running = runGroups({ environment: asking, scenarios: wrong, rolloutsPerGroup: 1, model });
  await expect(running).rejects.toThrow(
    /^Scenario 1 does not fit .*: `scenarios\[1\]\.id` is "two": Invalid input: expected number, received string\.$/,
  );
  expect(service.requests).toHaveLength(0);
});

test('impossible options are refused by name before anything runs', async () => {
  const { service, model } = await open();
  await using _ = service;
  const run = (options: object) =>
    runGroups({ environment: asking, scenarios: scenarios(1), rolloutsPerGroup: 2, model, ...options });
  await expect(run({ executor: inProcess(), concurrency: 8 })).rejects.toThrow(
    /`concurrency` is 8\. `executor` already limits/,
  );
  await expect(run({ concurrency: 0 })).rejects.toThrow(/concurrency` is 0/);
  await expect(run({ rolloutsPerGroup: 0 })).rejects.toThrow(/rolloutsPerGroup` is 0/);
  await expect(run({ timeoutMs: 0 })).rejects.toThrow(/timeoutMs` is 0/);
  await expect(run({ rewardTimeoutMs: Number.NaN })).rejects.toThrow(/rewardTimeoutMs` is NaN/);
  await expect(run({ groupTimeoutMs: -1 })).rejects.toThrow(/groupTimeoutMs` is -1/);
  const strategy = (groupStrategy: object) => run({ groupStrategy });
  await expect(strategy({ type: 'minimum', rollouts: 3 })).rejects.toThrow(/groupStrategy\.rollouts` is 3/);
  await expect(strategy({ type: 'minimum', share: 1.5 })).rejects.toThrow(/groupStrategy\.share` is 1\.5/);
  await expect(strategy({ type: 'retry', attempts: 0 })).rejects.toThrow(/groupStrategy\.attempts` is 0/);
  await expect(strategy({ type: 'retry', attempts: 2, minimum: 9 })).rejects.toThrow(/minimum` is 9/);
  expect(service.requests).toHaveLength(0);
});

test('one executor limits several calls together, and earlier groups run first', async () => {
  const { service, model } = await open();
  await using _ = service;
  let inFlight = 0;
  let most = 0;
  const order: number[] = [];
  const counting = defineEnvironment({
    name: 'counting',
    scenario,
    rollout: async ({ model: policy, scenario: { id } }) => {
      most = Math.max(most, ++inFlight);
      order.push(id);
      await generateText({ model: policy.languageModel, prompt: String(id) });
      inFlight--;
    },
    rewards: { done: () => 1 },
  });
  const executor = inProcess({ concurrency: 3 });
  const run = (ids: { id: number }[]) =>
    runGroups({ environment: counting, scenarios: ids, rolloutsPerGroup: 2, model, executor });
  const results = await Promise.all([run(scenarios(4)), run(scenarios(8).slice(4))]);
  expect(results.map(({ counts }) => counts.completed)).toEqual([8, 8]);
  expect(most).toBe(3);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  await executor.close();
});

test('a closed executor cancels waiting and running rollouts', async () => {
  const reached = Promise.withResolvers<void>();
  const { service, model } = await open(async () => {
    reached.resolve();
    return new Promise<never>(() => undefined);
  });
  await using _ = service;
  const executor = inProcess({ concurrency: 1 });
  const running = runGroups({
    environment: asking,
    scenarios: scenarios(2),
    rolloutsPerGroup: 2,
    model,
    executor,
  });
  await reached.promise;
  await executor.close();
  expect((await running).counts).toEqual({ dispatched: 4, completed: 0, failed: 0, cancelled: 4 });
});

test('an `onProgress` that throws ends all rollouts before its error is thrown', async () => {
  let running = 0;
  const waiting = defineEnvironment({
    name: 'waiting',
    scenario,
    rollout: async ({ scenario: { id }, model, signal }) => {
      const isFirst = running++ === 0;
      try {
        await generateText({ model: model.languageModel, prompt: 'a', abortSignal: signal });
        if (!isFirst) await once(signal, 'abort');
        else while (running < 3) await new Promise(setImmediate);
        return id;
      } finally {
        running--;
      }
    },
    rewards: { one: () => 1 },
  });
  const { service, model } = await open();
  await using _ = service;
  let thrown = 0;
  const run = runGroups({
    environment: waiting,
    scenarios: scenarios(1),
    rolloutsPerGroup: 3,
    model,
    onProgress: ({ done }) => {
      thrown++;
      throw new Error(`no display for ${done}`);
    },
  });
  await expect(run).rejects.toThrow('no display for 1');
  expect(thrown).toBe(3);
  await expect.poll(() => running).toBe(0);
});
