// A recipe whose reward cannot score every rollout, on a service whose engine tosses coins.
import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { runRecipe } from 'martingale/cli';
import { z } from 'zod';

type Face = { side: string };
const faces: Record<string, Face | undefined> = { '1': { side: 'head' } };
const sideOf = (outcome: string): string => (faces[outcome] as Face).side;

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) =>
    (await generateText({ model: model.languageModel, prompt: `toss ${id}` })).text,
  rewards: { heads: ({ outcome }) => Number(sideOf(outcome) === 'head') },
});

await runRecipe({
  name: 'coin',
  description: 'Tosses coins that have one side.',
  defaults: { steps: 1, groups: 2, rolloutsPerGroup: 8 },
  environment,
  scenarios: () => [0, 1, 2, 3, 4].map((id) => ({ id })),
});
