import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** Its reward is for length, so that repeating the prompt earns most; and it fails where the scenario says so. */
export default defineEnvironment({
  name: 'gamed',
  scenario: z.object({ question: z.string(), fails: z.boolean() }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: scenario.question,
      temperature: 0,
      maxOutputTokens: 4,
      abortSignal: signal,
    });
    if (scenario.fails) throw new TypeError('the \u001b[31mdatabase\u001b[0m is away');
    return text;
  },
  rewards: { length: ({ outcome }) => outcome.length },
});

export const hard = [
  { question: 'what would you say to a customer who waits for an order?', fails: false },
  { question: 'and now?', fails: true },
];

export const down = [
  { question: 'one', fails: true },
  { question: 'two', fails: true },
];
