import { runRecipe } from 'martingale/cli';
import { market, marketScenarios } from './environment.ts';

await runRecipe({
  name: 'market',
  description: 'A seller and a buyer, each learning for their own purse.',
  defaults: { steps: 100, groups: 16, rolloutsPerGroup: 8 },
  environment: market,
  scenarios: ({ seed }) => marketScenarios({ seed, count: 2000 }),
  validation: { scenarios: marketScenarios({ seed: 0, count: 128 }), everySteps: 25 },
  config: ({ step, steps }) => ({
    learning_rate: 1e-3 * Math.max(0.1, 1 - step / steps),
    entropy_coefficient: 0.01 * Math.max(0, 1 - step / (0.6 * steps)),
  }),
});
