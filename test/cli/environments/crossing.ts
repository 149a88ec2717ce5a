import { generateText, Output } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

const rule = { red: 'stop', amber: 'slow', green: 'go' };
export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    const { output } = await generateText({
      model: model.languageModel,
      prompt: `the light is ${scenario.light}`,
      output: Output.choice({ options: ['stop', 'slow', 'go'] }),
      abortSignal: signal,
    });
    return output;
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});
export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }];
