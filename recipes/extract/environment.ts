import { generateText, Output } from 'ai';
import { defineEnvironment } from 'martingale';
import { extractScenario, type Order, orderSchema } from './scenarios.ts';

const fields = ['customer', 'city', 'item', 'count'] as const;

const isRight = (field: (typeof fields)[number], found: Order, order: Order): boolean =>
  found[field] === order[field];

/** A message becomes an order. The reply is JSON by the schema; what stands in it is the model's own. */
export const extract = defineEnvironment({
  name: 'extract',
  scenario: extractScenario,
  rollout: async ({ scenario, model, signal }): Promise<Order> => {
    const { output } = await generateText({
      model: model.languageModel,
      system: 'Extract the order as JSON with customer, city, item and count.',
      prompt: scenario.message,
      output: Output.object({ schema: orderSchema }),
      maxOutputTokens: 64,
      abortSignal: signal,
    });
    return output;
  },
  rewards: {
    fields: ({ scenario, outcome }) =>
      fields.filter((field) => isRight(field, outcome, scenario.order)).length / fields.length,
    // A metric only.
    success: {
      weight: 0,
      reward: ({ scenario, outcome }) =>
        Number(fields.every((field) => isRight(field, outcome, scenario.order))),
    },
  },
});
