import { generateText } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { defineEnvironment, evaluate, externalModel, gradingJudge, relativeJudge } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { saying } from '../../model/mock-replies.ts';
import { judgeModel, scoringBy } from './judge-model.ts';

test('both judges work in an environment and read the replies of an external model', async () => {
  const shown: string[] = [];
  const describe = ({ outcome }: { outcome: string }) => `It said ${outcome.length} letters.`;
  const environment = defineEnvironment({
    name: 'judged',
    scenario: z.object({ topic: z.string() }),
    rollout: async ({ model, scenario: { topic } }) =>
      (await generateText({ model: model.languageModel, prompt: topic })).text,
    rewards: {
      graded: gradingJudge({
        model: judgeModel(({ text }) => {
          shown.push(text);
          return { explanation: 'so', score: 0.5 };
        }),
        task: ({ topic }) => `About ${topic}.`,
        describe,
      }),
    },
    groupRewards: {
      judged: relativeJudge({
        model: judgeModel(scoringBy({ good: 1 })),
        task: ({ topic }) => `About ${topic}.`,
        describe,
      }),
    },
  });
  const hosted = new MockLanguageModelV4({ doGenerate: async () => saying('good') });
  const { reward } = await evaluate({
    environment,
    scenarios: [{ topic: 'cats' }, { topic: 'dogs' }],
    model: externalModel(hosted),
  });
  expect(reward?.mean).toBe(1.5);
  expect(shown.sort()).toEqual(
    ['cats', 'dogs'].map(
      (topic) =>
        `<task>\nAbout ${topic}.\n</task>\n\n<conversation id="c1">\n{"role":"user","content":"${topic}"}\n` +
        '{"role":"assistant","content":"good"}\n<description>\nIt said 4 letters.\n</description>\n</conversation>',
    ),
  );
});
