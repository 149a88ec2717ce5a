// A recipe of two steps, on a service whose engine tosses coins.
import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { runRecipe } from 'martingale/cli';
import { z } from 'zod';

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) =>
    (await generateText({ model: model.languageModel, prompt: `toss ${id}` })).text,
  rewards: { success: ({ outcome }) => Number(outcome) },
});

await runRecipe({
  name: 'coin',
  description: 'Tosses coins.',
  defaults: { steps: 2, groups: 2, rolloutsPerGroup: 3 },
  environment,
  scenarios: ({ seed }) => [0, 1, 2, 3, 4].map((id) => ({ id: id + seed })),
});
