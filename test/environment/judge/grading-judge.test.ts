import { generateText } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import {
  defineEnvironment,
  EnvironmentError,
  gradingJudge,
  ModelHandle,
  runGroups,
  type Trajectory,
} from 'martingale';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startFakeService } from '../../model/fake-service.ts';
import { answering, judgeModel, readShown } from './judge-model.ts';

const context = (trajectory: Trajectory) => ({
  scenario: { topic: 'cats' },
  outcome: 'done',
  trajectory,
  signal: new AbortController().signal,
});

test('a grading judge scores one conversation, with its explanation in the logs', async () => {
  const model = judgeModel(() => ({ explanation: 'it purrs', score: 0.7 }));
  const judge = gradingJudge({
    model,
    rubric: 'Is it about cats?',
    task: ({ topic }: { topic: string }) => topic,
    describe: ({ outcome }) => String(outcome),
    prices: { input: 1, output: 1 },
  });
  const trajectory = answering('purr');
  expect(await judge(context(trajectory))).toBe(0.7);
  expect(trajectory.logs).toEqual(['Judged 0.7 of 1: it purrs']);
  expect(await judge(context(answering('purr')))).toBe(0.7);
  expect(judge.usage).toEqual({ calls: 1, cached: 1, inputTokens: 10, outputTokens: 4, cost: 14e-6 });
  const shown = readShown(model.doGenerateCalls[0] ?? { prompt: [] });
  expect(shown.instructions).toContain('Is it about cats?');
  expect(shown.text).toBe(
    '<task>\ncats\n</task>\n\n<conversation id="c1">\n{"role":"user","content":"Tell a joke."}\n' +
      '{"role":"assistant","content":"purr"}\n<description>\ndone\n</description>\n</conversation>',
  );
});

test.each([1.01, -1, 'high', null])(
  'a grade of %s is asked for again, and at last an error',
  async (score) => {
    const model = judgeModel((_, call) => ({ explanation: '', score: call < 2 ? score : 1 }));
    expect(await gradingJudge({ model })(context(answering('x')))).toBe(1);
    const never = gradingJudge({ model: judgeModel(() => ({ explanation: '', score })) });
    await expect(never(context(answering('x')))).rejects.toThrow(EnvironmentError);
  },
);

describe('in an environment', () => {
  const run = async (model: MockLanguageModelV4) => {
    const service = await startFakeService({ policy: () => ({ text: 'purr' }) });
    await using _ = service;
    const environment = defineEnvironment({
      name: 'graded',
      scenario: z.object({ topic: z.string() }),
      rollout: async ({ model: given }) =>
        (await generateText({ model: given.languageModel, prompt: 'a' })).text,
      rewards: { cats: gradingJudge({ model, task: ({ topic }) => topic }) },
    });
    const policy = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
    return await runGroups({
      environment,
      scenarios: [{ topic: 'cats' }],
      rolloutsPerGroup: 2,
      model: policy,
    });
  };

  test('its grade is the reward', async () => {
    const { groups } = await run(judgeModel(() => ({ explanation: 'ok', score: 0.25 })));
    expect(groups[0]?.trajectories.map(({ reward, metrics }) => [reward, metrics.cats])).toEqual([
      [0.25, 0.25],
      [0.25, 0.25],
    ]);
  });

  test('one that fails fails the rollout', async () => {
    const broken = new MockLanguageModelV4({
      doGenerate: () => Promise.reject(new TypeError('no credit left')),
    });
    const { groups, counts } = await run(broken);
    expect(counts).toMatchObject({ completed: 0, failed: 2 });
    expect(groups[0]?.rollouts[0]).toMatchObject({
      failure: { code: 'reward_failed', message: expect.stringContaining('no credit left') },
    });
  });
});
