import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { generateText } from 'ai';
import fc from 'fast-check';
import { currentTrajectory, defineEnvironment, type RolloutContext, TrajectoryError } from 'martingale';
import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import { runRollout } from '../../src/rollout/run-rollout.ts';
import { noScenario, openPolicy, outcomeOf, rolloutOptions, runOnce } from '../environment/run-once.ts';
import type { FakePolicy } from '../model/fake-service.ts';

const base = { name: 'x', scenario: z.object({}), rewards: { one: () => 1 } };
const yes: FakePolicy = () => ({ text: 'yes' });
const never = <Result>() => new Promise<Result>(() => undefined);
const ask = async <State>({ model, signal }: RolloutContext<object, State>, prompt = 'well?') =>
  (await generateText({ model: model.languageModel, prompt, abortSignal: signal, maxRetries: 0 })).text;
const nothing: unknown = undefined;

const thrown: [string, () => unknown, { code: string; message: RegExp }][] = [
  [
    'an error',
    () => {
      throw new RangeError('too far');
    },
    { code: 'RangeError', message: /^too far$/ },
  ],
  [
    'undefined',
    () => {
      throw nothing;
    },
    { code: 'thrown', message: /^undefined$/ },
  ],
  [
    'an object without a prototype',
    () => {
      throw Object.create(null);
    },
    { code: 'thrown', message: /cannot be written as text/ },
  ],
  [
    'an error that hides what it is',
    () => {
      throw Object.defineProperty(new Error('x'), 'name', {
        get: () => {
          throw new Error('y');
        },
      });
    },
    { code: 'thrown', message: /^x$/ },
  ],
  [
    'a symbol',
    () => {
      throw Symbol('s');
    },
    { code: 'thrown', message: /Symbol\(s\)/ },
  ],
  [
    'a rejected thenable',
    () => ({
      // biome-ignore lint/suspicious/noThenProperty: what a careless library may return
      then: (_: unknown, reject: (reason: unknown) => void) => reject(new TypeError('no')),
    }),
    { code: 'TypeError', message: /^no$/ },
  ],
  [
    'a thenable that throws',
    () => ({
      // biome-ignore lint/suspicious/noThenProperty: what a careless library may return
      then: () => {
        throw new TypeError('at once');
      },
    }),
    { code: 'TypeError', message: /at once/ },
  ],
];

test.each(thrown)('a rollout function that throws %s fails its rollout', async (_, rollout, expected) => {
  const ended = await runOnce(defineEnvironment({ ...base, rollout }), noScenario, yes);
  expect(ended).toMatchObject({
    status: 'failed',
    failure: { code: expected.code, message: expect.stringMatching(expected.message) },
  });
  expect(ended.trajectory.reward).toBeNull();
});

test('a failed rollout keeps the first 4,000 characters of a message', async () => {
  const rollout = () => {
    throw new Error(`${'page '.repeat(800)}end`);
  };
  const ended = await runOnce(defineEnvironment({ ...base, rollout }), noScenario, yes);
  expect(ended).toMatchObject({ failure: { message: `${'page '.repeat(800)}…` } });
});

test.each(thrown)(
  'a set-up that throws %s fails its rollout, and nothing is cleaned up',
  async (_, setup) => {
    const cleanup = vi.fn();
    const rollout = vi.fn(() => 0);
    const ended = await runOnce(defineEnvironment({ ...base, setup, rollout, cleanup }), noScenario, yes);
    expect(ended).toMatchObject({ status: 'failed', failure: { code: 'setup_failed' } });
    expect(rollout).not.toHaveBeenCalled();
    expect(cleanup).not.toHaveBeenCalled();
    expect(ended.trajectory.metrics).toEqual({});
  },
);

test.each(thrown)('a clean-up that throws %s is logged and changes no reward', async (_, cleanup) => {
  const ended = await runOnce(
    defineEnvironment({ ...base, setup: () => 1, rollout: (context) => ask(context), cleanup }),
    noScenario,
    yes,
  );
  expect(ended).toMatchObject({ status: 'completed', reward: 1 });
  expect(ended.trajectory.metrics).toMatchObject({ one: 1, cleanup_failed: 1 });
  expect(ended.trajectory.logs).toEqual([expect.stringMatching(/^The clean-up failed: /)]);
});

test.each(thrown)('an `atLimit` that throws %s fails its rollout', async (_, atLimit, { code }) => {
  const environment = defineEnvironment<typeof base.scenario, unknown>({
    ...base,
    limits: { turns: 1 },
    rollout: async (context) => [await ask(context), await ask(context)],
    atLimit,
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({ status: 'failed', failure: { code } });
});

test('each rollout has its own state of `setup`, from the agent to the clean-up', async () => {
  const seen: unknown[] = [];
  const environment = defineEnvironment({
    name: 'x',
    scenario: z.object({ id: z.number() }),
    setup: async ({ scenario, seed }) => ({ id: scenario.id, seed, said: '' }),
    rollout: async (context) => {
      context.state.said = await ask(context);
      return 'outcome';
    },
    cleanup: ({ state, scenario }) => seen.push([scenario.id, state]),
    rewards: { said: ({ state }) => state.said.length },
  });
  const [first, second] = await Promise.all([
    runOnce(environment, { id: 1 }, () => ({ text: 'a' })),
    runOnce(environment, { id: 2 }, () => ({ text: 'four' })),
  ]);
  expect([first, second]).toMatchObject([
    { status: 'completed', reward: 1 },
    { status: 'completed', reward: 4 },
  ]);
  expect(seen).toContainEqual([1, { id: 1, seed: 7, said: 'a' }]);
  expect(seen).toContainEqual([2, { id: 2, seed: 7, said: 'four' }]);
});

test('the clean-up runs after the rewards, and after the agent was aborted', async () => {
  const order: string[] = [];
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      context.signal.addEventListener('abort', () => order.push('agent stopped'));
      return ask(context);
    },
    cleanup: async ({ signal }) => {
      order.push(`clean-up, ${signal.aborted ? 'aborted' : 'free to act'}`);
    },
    rewards: { one: () => order.push('reward') },
  });
  await runOnce(environment, noScenario, yes);
  expect(order).toEqual(['reward', 'agent stopped', 'clean-up, free to act']);
});

test('a rollout that never returns fails at its deadline, and is cleaned up', async () => {
  const cleaned: number[] = [];
  const environment = defineEnvironment({
    ...base,
    setup: () => 5,
    rollout: () => never<string>(),
    cleanup: ({ state }) => cleaned.push(state),
  });
  const ended = await runOnce(environment, noScenario, yes, { timeoutMs: 20 });
  expect(ended).toMatchObject({ status: 'failed', failure: { code: 'rollout_timeout' } });
  expect(cleaned).toEqual([5]);
});

test('a rollout that swallows its abort ends too, and is cleaned up', async () => {
  const stop = new AbortController();
  const cleaned: number[] = [];
  const environment = defineEnvironment({
    ...base,
    setup: () => 5,
    rollout: async ({ signal }) => {
      stop.abort(new Error('Ctrl-C'));
      await once(signal, 'abort').catch(() => undefined);
      return never<string>();
    },
    cleanup: ({ state }) => cleaned.push(state),
  });
  const ended = await runOnce(environment, noScenario, yes, { signal: stop.signal });
  expect(ended).toMatchObject({
    status: 'cancelled',
    failure: { code: 'cancelled', message: 'The run was stopped: Ctrl-C' },
  });
  expect(cleaned).toEqual([5]);
});

test('a rollout that was cancelled before it began runs no set-up', async () => {
  const setup = vi.fn();
  const environment = defineEnvironment({ ...base, setup, rollout: () => 0, cleanup: setup });
  const ended = await runOnce(environment, noScenario, yes, { signal: AbortSignal.abort('early') });
  expect(ended).toMatchObject({ status: 'cancelled', failure: { message: 'The run was stopped: early' } });
  expect(setup).not.toHaveBeenCalled();
});

test('a set-up that ends after the rollout’s deadline is cleaned up too', async () => {
  const cleaned: string[] = [];
  const environment = defineEnvironment({
    ...base,
    setup: async ({ signal }) => {
      await once(signal, 'abort');
      await nextTurn();
      return 'late';
    },
    rollout: () => 0,
    cleanup: ({ state }) => cleaned.push(state),
  });
  const ended = await runOnce(environment, noScenario, yes, { timeoutMs: 20 });
  expect(ended).toMatchObject({ status: 'failed', failure: { code: 'rollout_timeout' } });
  expect(ended.trajectory.metrics).toEqual({});
  expect(cleaned).toEqual(['late']);
});

test('a set-up that outlasts the clean-up’s deadline is not awaited, and is cleaned up when it ends', async () => {
  const opened = Promise.withResolvers<string>();
  const cleaned = Promise.withResolvers<string>();
  const environment = defineEnvironment({
    ...base,
    setup: () => opened.promise,
    rollout: () => 0,
    cleanup: ({ state, signal }) =>
      cleaned.resolve(`${state}, ${signal.aborted ? 'aborted' : 'free to act'}`),
    cleanupTimeoutMs: 20,
  });
  const ended = await runOnce(environment, noScenario, yes, { timeoutMs: 20 });
  expect(ended.trajectory.metrics).toEqual({ cleanup_failed: 1 });
  expect(ended.trajectory.logs).toEqual([expect.stringMatching(/set-up had not ended within 20 ms/)]);
  opened.resolve('at last');
  expect(await cleaned.promise).toBe('at last, free to act');
});

test('a clean-up that never ends delays nothing beyond its deadline', async () => {
  let aborted = false;
  const environment = defineEnvironment({
    ...base,
    rollout: (context) => ask(context),
    cleanup: ({ signal }) => {
      signal.addEventListener('abort', () => {
        aborted = true;
      });
      return never();
    },
    cleanupTimeoutMs: 20,
  });
  const ended = await runOnce(environment, noScenario, yes);
  expect(ended).toMatchObject({ status: 'completed', reward: 1 });
  expect(ended.trajectory.metrics).toEqual({ one: 1, cleanup_failed: 1 });
  expect(ended.trajectory.logs[0]).toMatch(/did not end within 20 ms; raise `cleanupTimeoutMs`/);
  expect(aborted).toBe(true);
});

test('a reward that never answers fails its rollout with its own deadline', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: (context) => ask(context),
    rewards: { judged: () => never<number>() },
  });
  expect(await runOnce(environment, noScenario, yes, { rewardTimeoutMs: 20 })).toMatchObject({
    status: 'failed',
    failure: { code: 'reward_timeout' },
  });
});

test('a call refused by a limit fails a rollout that throws, with the limit’s code', async () => {
  const environment = defineEnvironment({
    ...base,
    limits: { turns: 2 },
    rollout: async (context) => {
      for (;;) await ask(context);
    },
  });
  const ended = await runOnce(environment, noScenario, yes);
  expect(ended).toMatchObject({
    status: 'failed',
    failure: {
      code: 'turn_limit',
      message: expect.stringMatching(/limit of 2 model calls\. Raise `limits\.turns`/),
    },
  });
  expect(ended.trajectory.stopReason).toBe('turn_limit');
  expect(ended.trajectory.choices).toHaveLength(2);
});

test('a rollout beyond a limit fails with the limit’s code, and its own error is mentioned', async () => {
  const environment = defineEnvironment({
    ...base,
    limits: { tokens: 4 },
    rollout: async (context) => {
      await ask(context);
      await ask(context).catch(() => {
        throw new Error('my agent gave up');
      });
      return 'unreached';
    },
  });
  const ended = await runOnce(environment, noScenario, yes);
  expect(ended).toMatchObject({
    status: 'failed',
    failure: { code: 'token_limit', message: expect.stringMatching(/limit of 4 sampled tokens/) },
  });
  expect(ended.trajectory.logs).toEqual(['After the token_limit the agent threw: my agent gave up']);
});

test('an agent that returns after a refused call is scored by its outcome', async () => {
  const environment = defineEnvironment({
    ...base,
    limits: { turns: 1 },
    rollout: async (context) => [await ask(context), await ask(context).catch(() => 'enough')],
  });
  const ended = await runOnce(environment, noScenario, yes);
  expect(outcomeOf(ended)).toEqual(['yes', 'enough']);
  expect(ended.trajectory.toRecord().metadata).toMatchObject({ stop_reason: 'turn_limit' });
});

test.each([
  ['throws on', (error: unknown) => Promise.reject(error)],
  ['swallows', () => 'swallowed'],
])('`atLimit` says what came of a rollout whose agent %s the refusal', async (_, answer) => {
  const environment = defineEnvironment({
    ...base,
    setup: () => ({ said: [''] }),
    limits: { turns: 2 },
    rollout: async (context) => {
      for (let turn = 0; turn < 3; turn++)
        context.state.said.push(await ask(context).catch((error) => answer(error)));
      return 'whole';
    },
    atLimit: ({ state, reason, signal }) => `${reason} ${state.said.length > 2} ${signal.aborted}`,
    rewards: { long: ({ outcome }) => outcome.length },
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'completed',
    outcome: 'turn_limit true false',
    reward: 21,
  });
});

test('the time limit interrupts a call in flight, and is not a rollout timeout', async () => {
  let reason: unknown;
  const environment = defineEnvironment({
    ...base,
    limits: { milliseconds: 50 },
    rollout: async (context) => {
      context.signal.addEventListener('abort', () => {
        reason ??= context.signal.reason;
      });
      return `${await ask(context)}${await ask(context)}`;
    },
  });
  let calls = 0;
  const ended = await runOnce(environment, noScenario, () => (calls++ === 0 ? { text: 'yes' } : never()));
  expect(ended).toMatchObject({
    status: 'failed',
    failure: { code: 'time_limit', message: expect.stringMatching(/limit of 50 milliseconds/) },
  });
  expect(reason).toBeInstanceOf(TrajectoryError);
  expect(ended.trajectory.stopReason).toBe('time_limit');
});

test('`atLimit` runs at the time limit also if the rollout never returns, and rewards have their time', async () => {
  const environment = defineEnvironment({
    ...base,
    limits: { milliseconds: 500 },
    rollout: async (context) => {
      await ask(context);
      return never<string>();
    },
    atLimit: ({ reason }) => reason,
    rewards: {
      scored: async ({ outcome, signal }) => {
        await nextTurn();
        signal.throwIfAborted();
        return outcome.length;
      },
    },
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'completed',
    outcome: 'time_limit',
    reward: 10,
  });
});

test('a rollout that ends before a call is answered has nothing to train on, whatever ended it', async () => {
  const environment = defineEnvironment({
    ...base,
    limits: { milliseconds: 20 },
    rollout: (context) => ask(context),
    atLimit: () => 'nothing said',
  });
  expect(await runOnce(environment, noScenario, () => never())).toMatchObject({
    status: 'failed',
    failure: { code: 'nothing_recorded', message: expect.stringMatching(/ended \(time_limit\) before/) },
  });
});

test('a call answered by another model fails the rollout with its own code, however the agent wraps it', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: (context) =>
      ask(context).catch(() => {
        throw new Error('the model is odd');
      }),
  });
  expect(
    await runOnce(environment, noScenario, () => ({ text: 'x', model: 'local/p/n:step2' })),
  ).toMatchObject({
    status: 'failed',
    failure: { code: 'unexpected_call_other_step' },
  });
});

test('calls of set-up, rewards and clean-up are outside the trajectory', async () => {
  await using service = await openPolicy(yes);
  const seen: unknown[] = [];
  const look = () => {
    seen.push(currentTrajectory());
    return 1;
  };
  const environment = defineEnvironment({
    ...base,
    setup: look,
    rollout: (context) => ask(context),
    cleanup: look,
    rewards: { look },
  });
  await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(seen).toEqual([undefined, undefined, undefined]);
});

test('step rewards of the agent are part of the reward', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      await ask(context);
      context.trajectory.rewardCall(0.5);
    },
  });
  const ended = await runOnce(environment, noScenario, yes);
  expect(ended).toMatchObject({ status: 'completed', reward: 1.5 });
  expect(ended.trajectory.reward).toBe(1.5);
});

const ways = ['works', 'throws', 'rejects', 'throws undefined', 'hangs'] as const;
type Way = (typeof ways)[number];

/** Does `work`, or fails in the chosen way. */
function doing<Result>(way: Way, work: () => Promise<Result>): Promise<Result> {
  if (way === 'throws') throw new Error('broken');
  if (way === 'throws undefined') throw nothing;
  if (way === 'rejects') return Promise.reject(new Error('broken later'));
  return way === 'hangs' ? never() : work();
}

test('each rollout has one defined end, however many failures occur at once', async () => {
  await using service = await openPolicy(yes);
  const way = fc.constantFrom(...ways);
  const plan = fc.record({ setup: way, rollout: way, reward: way, cleanup: way, stopped: fc.boolean() });
  const runPlanned = async (
    planned: { [part in 'setup' | 'rollout' | 'reward' | 'cleanup']: Way } & { stopped: boolean },
  ) => {
    let opened = 0;
    let cleaned = 0;
    const stop = new AbortController();
    const environment = defineEnvironment({
      ...base,
      setup: () => doing(planned.setup, async () => ++opened),
      rollout: (context) =>
        doing(planned.rollout, async () => {
          if (planned.stopped) stop.abort();
          return ask(context);
        }),
      cleanup: () => {
        cleaned++;
        return doing(planned.cleanup, async () => undefined);
      },
      cleanupTimeoutMs: 15,
      rewards: { one: () => doing(planned.reward, async () => 1) },
    });
    const ended = await runRollout({
      ...rolloutOptions(environment, noScenario, service.model),
      ...{ timeoutMs: 2_000, rewardTimeoutMs: 15, signal: stop.signal },
      ...(planned.setup === 'hangs' || planned.rollout === 'hangs' ? { timeoutMs: 15 } : {}),
    });
    const healthy = planned.setup === 'works' && planned.rollout === 'works';
    if (healthy && planned.stopped) expect(ended.status).toBe('cancelled');
    else expect(ended.status).toBe(healthy && planned.reward === 'works' ? 'completed' : 'failed');
    expect(ended.trajectory.reward).toBe(ended.status === 'completed' ? 1 : null);
    expect(cleaned).toBe(opened);
    const unclean = opened > 0 ? planned.cleanup !== 'works' : planned.setup === 'hangs';
    expect(ended.trajectory.metrics.cleanup_failed).toBe(unclean ? 1 : undefined);
  };
  await fc.assert(fc.asyncProperty(plan, runPlanned), { seed: 11, numRuns: 150 });
});

test('calls that the agent did not await end when it returns: rewards see everything that is trained on', async () => {
  const held = Promise.withResolvers<void>();
  const late: Promise<unknown>[] = [];
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      const { baseUrl, apiKey } = await context.model.endpoint();
      const first = await ask(context);
      // Neither is awaited.
      late.push(ask(context, 'and more?'));
      late.push(
        held.promise.then(() =>
          fetch(`${baseUrl}/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${apiKey}` },
            body: JSON.stringify({ messages: [{ role: 'user', content: 'b' }] }),
          }),
        ),
      );
      return first;
    },
    rewards: {
      one: async ({ trajectory }) => {
        held.resolve();
        await Promise.allSettled(late);
        return trajectory.choices.length;
      },
    },
  });
  const rollout = await runOnce(environment, noScenario, yes);
  expect(rollout).toMatchObject({ status: 'completed', reward: 1, outcome: 'yes' });
  expect(rollout.trajectory.choices).toHaveLength(1);
  const [left, asked] = await Promise.allSettled(late);
  expect(left).toMatchObject({ status: 'rejected' });
  expect(asked).toMatchObject({ status: 'fulfilled', value: { status: 410 } });
});
