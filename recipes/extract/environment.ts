import { generateText, NoObjectGeneratedError, Output } from 'ai';
import { defineEnvironment, type RolloutModel } from 'martingale';
import { type ExtractScenario, extractScenario, type Order, orderSchema } from './scenarios.ts';

const fields = ['customer', 'city', 'item', 'count'] as const;

/** The order; null for a reply that was cut before its JSON ended, which is the model's mistake. */
type Outcome = Order | null;

type Scored = { scenario: ExtractScenario; outcome: Outcome };

const rightFields = ({ scenario, outcome }: Scored): number =>
  fields.filter((field) => outcome?.[field] === scenario.order[field]).length;

interface Context {
  scenario: ExtractScenario;
  texts: { system: string };
  model: RolloutModel;
  signal: AbortSignal;
}

const agent = {
  scenario: extractScenario,
  texts: { system: 'Extract the order as JSON with customer, city, item and count.' },
  rollout: async ({ scenario, texts, model, signal }: Context): Promise<Outcome> => {
    try {
      const { output } = await generateText({
        model: model.languageModel,
        system: texts.system,
        prompt: scenario.message,
        output: Output.object({ schema: orderSchema }),
        maxOutputTokens: 64,
        abortSignal: signal,
      });
      return output;
    } catch (error) {
      if (NoObjectGeneratedError.isInstance(error)) return null;
      throw error;
    }
  },
};

/** A metric only. */
const success = { weight: 0, reward: (scored: Scored) => Number(rightFields(scored) === fields.length) };

/** A message becomes an order. The reply is JSON by the schema; what stands in it is the model's own. */
export const extract = defineEnvironment({
  ...agent,
  name: 'extract',
  rewards: { fields: (scored: Scored) => rightFields(scored) / fields.length, success },
});

/** The same without rewards, for a teacher. */
export const taughtExtract = defineEnvironment({ ...agent, name: 'taught extract', rewards: { success } });
