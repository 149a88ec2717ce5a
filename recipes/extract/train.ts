import { runRecipe } from 'martingale/cli';
import { extract } from './environment.ts';
import { extractScenarios } from './scenarios.ts';

await runRecipe({
  name: 'extract',
  description: 'Teaches a published instruct model to take an order out of a message.',
  defaults: { steps: 40, groups: 6, rolloutsPerGroup: 8, baseModel: 'SmolLM2-135M-Instruct' },
  environment: extract,
  scenarios: ({ seed }) => extractScenarios({ split: 'train', seed, count: 2000 }),
  validation: ({ seed }) => ({
    scenarios: extractScenarios({ split: 'val', seed, count: 60 }),
    everySteps: 20,
  }),
  config: { learning_rate: 3e-4, entropy_coefficient: 0.01 },
});
