import { runRecipe } from 'martingale/cli';
import { shop } from './environment.ts';
import { shopScenarios } from './scenarios.ts';

await runRecipe({
  name: 'shop',
  description: 'Trains an instruct model to serve the customers of a shop with three tools.',
  defaults: { steps: 40, groups: 8, rolloutsPerGroup: 8, baseModel: 'Qwen2.5-0.5B-Instruct' },
  environment: shop,
  scenarios: ({ seed }) => shopScenarios({ split: 'train', seed, count: 2000 }),
  validation: ({ seed }) => ({ scenarios: shopScenarios({ split: 'val', seed, count: 64 }) }),
  config: { learning_rate: 1e-4 },
});
