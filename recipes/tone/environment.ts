import { generateText } from 'ai';
import { defineEnvironment, relativeJudge } from 'martingale';
import { houseJudge, liking } from './house-judge.ts';
import { replyOutput } from './reply.ts';
import { toneScenario } from './scenarios.ts';

export const tone = defineEnvironment({
  name: 'tone',
  scenario: toneScenario,
  rollout: async ({ scenario, model, signal }) => {
    const { output } = await generateText({
      model: model.languageModel,
      prompt: scenario.message,
      output: replyOutput,
      abortSignal: signal,
    });
    return output;
  },
  // Metrics only: how well the reply meets the judge's taste, which a hosted judge would not reveal.
  rewards: {
    liking: { weight: 0, reward: ({ scenario, outcome }) => liking(scenario.message, outcome) / 3 },
    success: {
      weight: 0,
      reward: ({ scenario, outcome }) => Number(liking(scenario.message, outcome) === 3),
    },
  },
  groupRewards: {
    judged: relativeJudge({
      // Any AI SDK model, such as `openai('...')` or a model name.
      model: houseJudge,
      rubric: 'The reply whose tone fits the mood of the message best wins.',
    }),
  },
});
