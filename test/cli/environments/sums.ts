import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { scriptedModel } from 'martingale/testing';
import { z } from 'zod';

export default defineEnvironment({
  name: 'sums',
  scenario: z.object({ id: z.string(), question: z.string(), answer: z.number() }),
  rollout: async ({ scenario, model, signal }) => {
    const { languageModel } = model;
    const { text } = await generateText({
      model: languageModel,
      prompt: scenario.question,
      abortSignal: signal,
      maxRetries: 0,
    });
    return text;
  },
  rewards: {
    success: ({ scenario, outcome }) => Number(Number(outcome) === scenario.answer),
    brief: { weight: 0.5, reward: ({ outcome }) => 1 / outcome.length },
  },
});

export const scenarios = Array.from({ length: 8 }, (_, n) => ({
  id: `sum-${n}`,
  question: `${n} + 1`,
  answer: n + 1,
}));

/** A model that knows the sums below a number, and fails where it is asked for one of `lost`. */
export const knows = (name: string, count: number, lost: readonly number[] = []) =>
  scriptedModel(
    ({ messages }) => {
      const first = Number.parseInt(String(messages.at(-1)?.content), 10);
      if (lost.includes(first)) throw new Error('the provider is away');
      return first < count ? String(first + 1) : 'no';
    },
    { name },
  );
