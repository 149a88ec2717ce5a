import { generateText } from 'ai';
import { defineEnvironment, randomSource, type Seat } from 'martingale';
import { z } from 'zod';

/** What the thing costs the seller, and what it is worth to the buyer. Each sees their own number only. */
export const marketScenario = z.object({
  id: z.string(),
  cost: z.number().int().min(1).max(8),
  worth: z.number().int().min(2).max(9),
});

const prices = [...'123456789'];

/** The seller names a price; the buyer takes it or leaves it. Each learns for their own purse. */
export const market = defineEnvironment({
  name: 'market',
  scenario: marketScenario,
  seats: ['seller', 'buyer'],
  rollout: async ({ scenario: { cost, worth }, seats, signal }) => {
    const price = await choose(seats.seller, `sell cost ${cost}`, prices, signal);
    const answer = await choose(seats.buyer, `buy worth ${worth} price ${price}`, ['yes', 'no'], signal);
    return { price: Number(price), isSold: answer === 'yes' };
  },
  rewards: {
    profit: ({ scenario: { cost, worth }, outcome: { price, isSold }, seat }) => {
      if (!isSold) return 0;
      return (seat === 'seller' ? price - cost : worth - price) / 8;
    },
    // Whether the decision was right with what the seat could know: no loss, and no gain refused.
    success: {
      weight: 0,
      reward: ({ scenario: { cost, worth }, outcome: { price, isSold }, seat }) =>
        Number(seat === 'seller' ? price > cost : isSold === price < worth || price === worth),
    },
    sold: { seats: ['seller'], weight: 0, reward: ({ outcome }) => Number(outcome.isSold) },
  },
});

async function choose({ model }: Seat, prompt: string, choice: string[], abortSignal: AbortSignal) {
  const { text } = await generateText({
    model: model.languageModel,
    prompt,
    providerOptions: { martingale: { structured_outputs: { choice } } },
    abortSignal,
  });
  return text;
}

/** Sellers and buyers who may or may not have something to gain from each other. */
export function marketScenarios({ seed, count }: { seed: number; count: number }) {
  const random = randomSource(seed);
  return Array.from({ length: count }, (_, at) => ({
    id: `deal-${at}`,
    cost: 1 + Math.floor(random() * 8),
    worth: 2 + Math.floor(random() * 8),
  }));
}
