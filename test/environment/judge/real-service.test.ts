import { wrapLanguageModel } from 'ai';
import { gradingJudge, ModelHandle, relativeJudge, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { baseModel, type RealService, startRealService } from '../../model/real-service.ts';
import { answering } from './judge-model.ts';

let service: RealService;
let judging: ModelHandle;
beforeAll(async () => {
  service = await startRealService();
  judging = new ModelHandle({ client: service.client, name: baseModel }).with({
    record: false,
    temperature: 0,
  });
});
afterAll(() => service.close());

const { signal } = new AbortController();
const grade = (id: string) => `\\{"id":"${id}","explanation":"[a-z]{5}","score":0\\.[0-9]\\}`;

/** The policy's base model. It is untrained, so a grammar ensures that its verdict has the right form. */
const kept = () =>
  wrapLanguageModel({
    model: judging.languageModel,
    middleware: {
      transformParams: async ({ params: { responseFormat: _, ...params } }) => ({
        ...params,
        providerOptions: {
          martingale: { structured_outputs: { regex: `\\{"scores":\\[${grade('c1')},${grade('c2')}\\]\\}` } },
        },
      }),
    },
  });

test('the base model of the service judges within a rollout, reproducibly and without being recorded', async () => {
  const trajectory = new Trajectory({ policy: 'local/p/n:step1' });
  const judged = () => {
    const members = ['good', 'bad'].map((said) => ({
      outcome: said,
      trajectory: answering(said),
      reward: 0,
    }));
    const judge = relativeJudge({ model: kept() });
    return runInTrajectory(trajectory, async () => ({
      scores: await judge({ scenario: {}, members, signal }),
      usage: judge.usage,
      logs: members.map((member) => member.trajectory.logs),
    }));
  };
  const first = await judged();
  expect(first.scores.every((score) => score >= 0 && score < 1)).toBe(true);
  expect(first.logs).toEqual(
    first.scores.map((score) => [expect.stringMatching(new RegExp(`^Judged ${score} of 1: [a-z]{5}$`))]),
  );
  expect(first.usage).toMatchObject({ calls: 1, cached: 0, cost: null });
  expect(first.usage.inputTokens).toBeGreaterThan(100);
  expect(first.usage.outputTokens).toBeGreaterThan(10);
  expect(await judged()).toEqual(first);
  expect(trajectory).toMatchObject({ histories: [], violation: undefined, usage: { turns: 0 } });
});

test('a model that follows the schema with unusable content gives an error, not a score', async () => {
  const judge = gradingJudge({ model: judging.languageModel, attempts: 1, maxOutputTokens: 20 });
  const trajectory = answering('good');
  await expect(judge({ scenario: {}, outcome: '', trajectory, signal })).rejects.toMatchObject({
    code: 'judge_answer_unusable',
    message: expect.stringContaining(baseModel),
  });
  expect(trajectory.logs).toEqual([]);
});
