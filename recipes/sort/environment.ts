import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { length, sortScenario } from './scenarios.ts';

/** The digits with spaces between them: `3 1 2` for `312`. */
export const spaced = (digits: string): string => [...digits].join(' ');

export const question = (digits: string): string => `sort ${spaced(digits)}`;

export const sorted = (digits: string): string => [...digits].sort().join('');

/** Share of positions with the right digit. Each extra or missing digit costs one position. Not below 0. */
export function shareInPosition(digits: string, answer: string): number {
  const right = [...sorted(digits)].filter((digit, index) => answer[index] === digit).length;
  return Math.max(0, right - Math.abs(answer.length - digits.length)) / digits.length;
}

export const sort = defineEnvironment({
  name: 'sort',
  scenario: sortScenario,
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: question(scenario.digits),
      maxOutputTokens: 4 * length,
      abortSignal: signal,
    });
    return text.replaceAll(' ', '');
  },
  rewards: {
    positions: ({ scenario, outcome }) => shareInPosition(scenario.digits, outcome),
    success: { weight: 0, reward: ({ scenario, outcome }) => Number(outcome === sorted(scenario.digits)) },
  },
});
