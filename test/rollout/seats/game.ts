import { generateText } from 'ai';
import { z } from 'zod';
import { defineEnvironment } from '../../../src/index.ts';

/** Two players name a number in turn; the higher one wins. */
export const game = defineEnvironment({
  name: 'higher',
  scenario: z.object({ rounds: z.number() }),
  seats: ['first', 'second'],
  rollout: async ({ scenario, seats }) => {
    const numbers = { first: 0, second: 0 };
    for (let round = 0; round < scenario.rounds; round++)
      for (const name of ['first', 'second'] as const) {
        const prompt = `${name} ${round}`;
        const { text } = await generateText({
          model: seats[name].model.languageModel,
          prompt,
          maxRetries: 0,
        });
        numbers[name] += Number(text);
      }
    return numbers;
  },
  rewards: {
    won: ({ outcome, seat }) => Number(outcome[seat] > outcome[seat === 'first' ? 'second' : 'first']),
    named: { weight: 0, reward: ({ outcome, seat }) => outcome[seat] },
  },
});
