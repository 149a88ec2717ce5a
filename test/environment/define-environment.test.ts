import { generateText, type ModelMessage, Output } from 'ai';
import {
  defineEnvironment,
  type Environment,
  type LoopOutcome,
  type RolloutModel,
  type Trajectory,
} from 'martingale';
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';

const scenario = z.object({ goal: z.number().default(3) });
const base = { name: 'x', scenario, rollout: () => 0 };

test('with `rollout`, the types of scenario, state and outcome are inferred', () => {
  const environment = defineEnvironment({
    name: 'typed',
    scenario,
    limits: { turns: 2 },
    setup: async (context) => {
      expectTypeOf(context.scenario).toEqualTypeOf<{ goal: number }>();
      return { board: [context.seed] };
    },
    rollout: async (context) => {
      expectTypeOf(context.scenario).toEqualTypeOf<{ goal: number }>();
      expectTypeOf(context.state).toEqualTypeOf<{ board: number[] }>();
      expectTypeOf(context.model).toEqualTypeOf<RolloutModel>();
      return { steps: ['a'] };
    },
    atLimit: ({ state, reason }) => {
      expectTypeOf(state).toEqualTypeOf<{ board: number[] }>();
      return { steps: [reason] };
    },
    onError: async ({ error, state }) => {
      expectTypeOf(error).toEqualTypeOf<unknown>();
      expectTypeOf(state).toEqualTypeOf<{ board: number[] }>();
      return error instanceof TypeError ? { steps: ['b'] } : undefined;
    },
    cleanup: ({ state }) => expectTypeOf(state).toEqualTypeOf<{ board: number[] }>(),
    rewards: {
      right: ({ outcome, state }) => {
        expectTypeOf(outcome).toEqualTypeOf<{ steps: string[] }>();
        return outcome.steps.length + state.board.length;
      },
      length: { weight: 0, reward: async ({ outcome }) => outcome.steps.length },
    },
    groupRewards: {
      rank: ({ members }) => members.map(({ outcome }) => outcome.steps.length),
      spread: { weight: 0, reward: async ({ members }) => members.map(({ reward }) => reward) },
    },
    credit: ({ calls, outcome }) => calls.map((call) => call.reward + outcome.steps.length),
  });
  expectTypeOf(environment).toEqualTypeOf<Environment<typeof scenario, { steps: string[] }>>();
  expectTypeOf(environment).toExtend<Environment>();
  expect(environment.rewardNames).toEqual(['right', 'length', 'rank', 'spread']);
});

test('the compiler tells what is wrong with a reward of a `rollout` at the reward alone', () => {
  const environment = defineEnvironment({
    name: 'wrong',
    scenario,
    rollout: () => 0,
    rewards: {
      // @ts-expect-error a reward is a number; no other line has an error
      success: ({ outcome }) => outcome === 3,
    },
  });
  expect(environment.rewardNames).toEqual(['success']);
});

test('with `prompt`, the types of scenario, state and output are inferred', () => {
  const environment = defineEnvironment({
    name: 'typed',
    scenario,
    setup: () => new Map<string, number>(),
    system: ({ state }) => `${state.size} rooms`,
    prompt: ({ scenario: { goal }, state }) => `${goal}${state.size}`,
    tools: async ({ state, trajectory }) => {
      expectTypeOf(state).toEqualTypeOf<Map<string, number>>();
      expectTypeOf(trajectory).toEqualTypeOf<Trajectory>();
      return {};
    },
    output: Output.object({ schema: z.object({ move: z.enum(['left', 'right']) }) }),
    observe: ({ reply, state, turn, messages }) => {
      expectTypeOf(reply.output).toEqualTypeOf<{ move: 'left' | 'right' } | null>();
      expectTypeOf(messages).toEqualTypeOf<readonly ModelMessage[]>();
      return state.size > turn ? null : 'go on';
    },
    stop: ({ state }) => (state.has('exit') ? 'out' : false),
    onError: ({ error, outcome, state }) => {
      expectTypeOf(outcome).toEqualTypeOf<LoopOutcome<{ move: 'left' | 'right' }>>();
      return error instanceof TypeError && state.size > 0 ? outcome : undefined;
    },
    rewards: {
      moved: ({ outcome, state }) => {
        expectTypeOf(outcome).toEqualTypeOf<LoopOutcome<{ move: 'left' | 'right' }>>();
        return Number(outcome.output?.move === 'left') + state.size;
      },
    },
  });
  expectTypeOf(environment).toEqualTypeOf<
    Environment<typeof scenario, LoopOutcome<{ move: 'left' | 'right' }>>
  >();
});

test('without `setup` and `output` there is no state and no output', () => {
  const plain = defineEnvironment({
    name: 'plain',
    scenario,
    prompt: ({ state }) => {
      expectTypeOf(state).toEqualTypeOf<undefined>();
      return 'hello';
    },
    rewards: {
      short: ({ outcome, state }) => {
        expectTypeOf(outcome.output).toEqualTypeOf<null>();
        expectTypeOf(state).toEqualTypeOf<undefined>();
        return outcome.text.length;
      },
    },
  });
  expectTypeOf(plain).toEqualTypeOf<Environment<typeof scenario, LoopOutcome>>();
  const own = defineEnvironment({
    name: 'own',
    scenario,
    rollout: async ({ model, signal, state }) => {
      expectTypeOf(state).toEqualTypeOf<undefined>();
      return (await generateText({ model: model.languageModel, prompt: 'a', abortSignal: signal })).text;
    },
    rewards: { long: ({ outcome }) => outcome.length },
  });
  expectTypeOf(own).toEqualTypeOf<Environment<typeof scenario, string>>();
});

test('a weight that is no number is refused', () => {
  const rewards = { a: { weight: Number.NaN, reward: () => 1 } };
  expect(() => defineEnvironment({ ...base, rewards })).toThrow(/weight of reward "a" is NaN/);
});

test('rewards may be missing', () => {
  expect(defineEnvironment({ ...base, groupRewards: { rank: () => [] } }).rewardNames).toEqual(['rank']);
  expect(defineEnvironment({ ...base, credit: { discount: 0.9 } }).rewardNames).toEqual([]);
  expect(defineEnvironment({ ...base }).rewardNames).toEqual([]);
});

test('a reward and a group reward cannot have the same name', () => {
  expect(() =>
    defineEnvironment({ ...base, rewards: { a: () => 1 }, groupRewards: { a: () => [] } }),
  ).toThrow(/"a" is the name of a reward and of a group reward/);
});

test('a reward cannot have a reserved metric name', () => {
  const define = (name: string) => defineEnvironment({ ...base, rewards: { [name]: () => 1 } });
  expect(() => define('step_reward')).toThrow(/"step_reward" is a reserved metric name/);
  expect(() => define('tool_errors')).toThrow(/Give the reward another name/);
});

test('the type of `output` follows from each kind of output of the AI SDK', () => {
  const pieces = { name: 'typed', scenario, prompt: () => 'Go.' };
  defineEnvironment({
    ...pieces,
    output: Output.choice({ options: ['left', 'right'] }),
    rewards: {
      one: ({ outcome }) => {
        expectTypeOf(outcome.output).toEqualTypeOf<'left' | 'right' | null>();
        return 1;
      },
    },
  });
  defineEnvironment({
    ...pieces,
    output: Output.array({ element: z.object({ at: z.number() }) }),
    rewards: {
      one: ({ outcome }) => {
        expectTypeOf(outcome.output).toEqualTypeOf<{ at: number }[] | null>();
        return 1;
      },
    },
  });
});

test.each([
  [{ limits: { turns: 0 } }, /Environment "x": `limits\.turns` is 0. Give a whole number above 0/],
  [{ limits: { turns: 1.5 } }, /limits\.turns.*is 1.5/],
  [{ limits: { tokens: Number.NaN } }, /limits\.tokens.*is NaN/],
  [{ limits: { toolCalls: -1 } }, /limits\.toolCalls.*is -1/],
  [{ limits: { milliseconds: 0 } }, /limits\.milliseconds.*is 0. Give a number above 0/],
  [{ cleanupTimeoutMs: 0 }, /cleanupTimeoutMs.*is 0. Give milliseconds above 0/],
  [{ credit: { discount: 1.5 } }, /credit\.discount.*is 1.5. Give a number from 0 to 1/],
  [{ credit: { discount: Number.NaN } }, /credit\.discount.*is NaN/],
])('%o is refused', (options, message) => {
  expect(() => defineEnvironment({ ...base, rewards: { a: () => 1 }, ...options })).toThrow(message);
});

test('an unknown limit is refused by name', () => {
  const limits: { turns?: number } = { turns: 1 };
  Object.assign(limits, { seconds: 1 });
  expect(() => defineEnvironment({ ...base, limits, rewards: { a: () => 1 } })).toThrow(
    /no option `limits\.seconds`.*`limits` has: turns, tokens, toolCalls, milliseconds/,
  );
});

test.each([
  [
    { maxTurns: 3 },
    /defineEnvironment\(\{ name: "x" \}\) has no option `maxTurns`. Did you mean `limits: \{ turns \}`/,
  ],
  [
    { tools: {} },
    /Environment "x": `tools` is an option of environments with `prompt`; this one has `rollout`/,
  ],
  [{ scenario: { id: 1 } }, /`scenario` is an object with id. Give a zod 4 schema/],
  [{ rewards: { a: undefined } }, /the reward "a" is undefined. Give a function/],
  [{ groupRewards: { b: { weight: 1 } } }, /the reward "b" is an object with weight. Give/],
])('without a type checker, %o is refused', (options, message) => {
  const given = { ...base, rewards: { a: () => 1 } };
  Object.assign(given, options);
  expect(() => defineEnvironment(given)).toThrow(message);
});

test('the stack of a refusal begins where the program called defineEnvironment()', () => {
  const refused = () => defineEnvironment({ ...base, name: 'x', credit: { discount: 2 } });
  const [, first = ''] = String(thrownBy(refused)?.stack).split('\n    at ');
  expect(first).toContain('define-environment.test.ts');
});

function thrownBy(call: () => unknown): Error | undefined {
  try {
    call();
  } catch (error) {
    return error instanceof Error ? error : undefined;
  }
  return undefined;
}
