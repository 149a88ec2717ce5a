import { runRecipe } from 'martingale/cli';
import { doors, search, searchScenarios } from './environment.ts';

await runRecipe({
  name: 'search',
  description:
    'Learns to find a prize behind one of seven doors in three looks, with success as the only reward.',
  defaults: { steps: 400, groups: doors, rolloutsPerGroup: 16 },
  environment: search,
  scenarios: searchScenarios,
  validation: { scenarios: searchScenarios },
  config: ({ step, steps }) => ({
    learning_rate: 2e-3 * Math.max(0.1, 1 - step / steps),
    entropy_coefficient: 0.08 * Math.max(0, 1 - step / (0.6 * steps)),
  }),
});
