import { generateText } from 'ai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { defineEnvironment } from '../../../src/index.ts';
import type { FakePolicy } from '../../model/fake-service.ts';
import { realRun } from './real-run.ts';

const scenarios = [0, 1, 2, 3].map((value) => ({ value }));
type Scenario = (typeof scenarios)[number];

interface AskOptions {
  rewards: Record<string, (rollout: { scenario: Scenario; outcome: string }) => number>;
  settings?: { temperature?: number; topK?: number; seed?: number };
}

const ask = ({ rewards, settings = {} }: AskOptions) =>
  defineEnvironment({
    name: 'ask',
    scenario: z.object({ value: z.number() }),
    rollout: async ({ model, scenario }) => {
      const prompt = String(scenario.value);
      return (await generateText({ model: model.languageModel, prompt, ...settings })).text;
    },
    rewards,
  });

/** A reply that depends on the seed, or is always the same for greedy sampling. */
const sampled: FakePolicy = ({ seed, temperature, top_k: topK }) => ({
  text: temperature === 0 || topK === 1 ? 'likeliest' : String(seed),
});

const causesOf = async (options: AskOptions, policy: FakePolicy = sampled) => {
  const { alarms } = await realRun({ environment: ask(options), scenarios, policy });
  return alarms.filter(({ kind }) => kind === 'no_signal');
};

describe('groups without a signal have a cause', () => {
  test.each<[string, string, AskOptions, RegExp]>([
    ['solved', 'all succeed', { rewards: { success: () => 1 } }, /in 20 of 20 groups every rollout succeeds/],
    [
      'unsolved',
      'none succeeds',
      { rewards: { success: () => 0 } },
      /in 20 of 20 groups no rollout succeeds/,
    ],
    [
      'always_or_never',
      'half of the scenarios always succeed, the others never',
      { rewards: { success: ({ scenario }) => Number(scenario.value < 2) } },
      /the mean success is 50%\. .* in 10 of 20 groups every rollout succeeds, in 10 none does/,
    ],
    [
      'constant_reward',
      'the reward is a constant',
      { rewards: { quality: () => 0.5 } },
      /Every rollout got the reward 0\.5, whatever the scenario and the reply/,
    ],
    [
      'constant_reward',
      'the constant is called success, and is a part of it',
      { rewards: { success: () => 0.5 } },
      /the mean success is 50%\. Every rollout got the reward 0\.5, whatever the scenario and the reply/,
    ],
    [
      'reward_ignores_replies',
      'a part of success depends on the scenario alone, in two values',
      { rewards: { success: ({ scenario }) => (scenario.value < 2 ? 0.3 : 0.5) } },
      /In 20 of 20 groups replies differ but rewards do not/,
    ],
    [
      'replies_alike',
      'the agent samples at temperature 0',
      { rewards: { length: ({ outcome }) => outcome.length }, settings: { temperature: 0 } },
      /In 20 of 20 groups .* the same replies, token for token: .* \(temperature 0/,
    ],
    [
      'replies_alike',
      'the agent gives its calls one seed',
      { rewards: { length: ({ outcome }) => outcome.length }, settings: { seed: 7 } },
      /the same replies, token for token: the agent sets the seed of its calls/,
    ],
    [
      'reward_ignores_replies',
      'the reward depends on the scenario alone',
      { rewards: { quality: ({ scenario }) => scenario.value / 3 } },
      /In 20 of 20 groups replies differ but rewards do not/,
    ],
  ])('%s: %s', async (cause, _, options, message) => {
    const alarms = await causesOf(options);
    expect(alarms).toMatchObject([{ cause, step: 4, message: expect.stringMatching(message) }]);
    expect(alarms[0]?.lookAt).toMatch(/\.$/);
  });

  test('replies_alike: the policy has collapsed to one reply per scenario', async () => {
    const alarms = await causesOf(
      { rewards: { success: ({ scenario }) => Number(scenario.value < 2) } },
      ({ messages }) => ({ text: JSON.stringify(messages[0]) }),
    );
    expect(alarms).toMatchObject([{ cause: 'replies_alike', lookAt: expect.stringContaining('collapsed') }]);
  });

  test('constant_reward: success differs, but the reward ignores it', async () => {
    let calls = 0;
    const environment = defineEnvironment({
      name: 'blind',
      scenario: z.object({ value: z.number() }),
      rollout: async ({ model, trajectory }) => {
        const { text } = await generateText({ model: model.languageModel, prompt: 'a' });
        trajectory.metrics.success = calls++ % 2;
        return text;
      },
      rewards: { quality: () => 1 },
    });
    const { alarms } = await realRun({ environment, scenarios, policy: sampled });
    expect(alarms).toMatchObject([{ kind: 'no_signal', cause: 'constant_reward' }]);
  });

  test('not_compared: one rollout of each group completes', async () => {
    let calls = 0;
    const environment = defineEnvironment({
      name: 'breaks',
      scenario: z.object({ value: z.number() }),
      rollout: async ({ model }) => {
        const call = calls++;
        const { text } = await generateText({ model: model.languageModel, prompt: 'a' });
        if (call % 3 > 0) throw new Error('The simulator is away.');
        return text;
      },
      rewards: { quality: ({ outcome }) => outcome.length },
    });
    const { alarms } = await realRun({ environment, scenarios, policy: sampled });
    expect(alarms.find(({ kind }) => kind === 'no_signal')).toMatchObject({
      cause: 'not_compared',
      message: expect.stringMatching(/Only 0 of 20 groups had two completed rollouts/),
    });
  });

  test('a continuous reward that depends on the reply raises nothing', async () => {
    const rewards = { closeness: ({ outcome }: { outcome: string }) => 1 / (1 + Number(outcome)) };
    expect(await causesOf({ rewards: { ...rewards, scaled: ({ outcome }) => Number(outcome) % 7 } })).toEqual(
      [],
    );
  });
});

describe('sampling at temperature 0 is reported at the first step', () => {
  const rewards = { length: ({ outcome }: { outcome: string }) => outcome.length };

  test.each([
    ['temperature 0', { temperature: 0 }],
    ['the likeliest token alone', { topK: 1 }],
  ])('%s', async (_, settings) => {
    const environment = ask({ rewards, settings });
    const { alarms, reports } = await realRun({ environment, scenarios, policy: sampled, steps: 1 });
    expect(reports[0]?.comparison).toMatchObject({ compared: 4, greedy: 4, alike: 4 });
    expect(alarms).toMatchObject([
      {
        kind: 'greedy_sampling',
        step: 0,
        message: expect.stringMatching(/^All calls of 4 of 4 groups sampled greedily \(temperature 0/),
        lookAt: expect.stringContaining('Remove `temperature: 0`'),
      },
    ]);
  });

  test('not if some calls of a rollout are sampled', async () => {
    const environment = defineEnvironment({
      name: 'two-agents',
      scenario: z.object({ value: z.number() }),
      rollout: async ({ model }) => {
        const { text } = await generateText({ model: model.languageModel, prompt: 'a', temperature: 0 });
        return (await generateText({ model: model.languageModel, prompt: text })).text;
      },
      rewards: { quality: ({ outcome }) => Number(outcome) % 7 },
    });
    const { alarms, reports } = await realRun({ environment, scenarios, policy: sampled, steps: 1 });
    expect(reports[0]?.comparison).toMatchObject({ compared: 4, greedy: 0 });
    expect(alarms).toEqual([]);
  });
});
