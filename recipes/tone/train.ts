import { runRecipe } from 'martingale/cli';
import { tone } from './environment.ts';
import { toneScenarios } from './scenarios.ts';

await runRecipe({
  name: 'tone',
  description: 'Learns to answer in the tone that a judge prefers, which only compares replies.',
  defaults: { steps: 200, groups: 12, rolloutsPerGroup: 8 },
  environment: tone,
  scenarios: ({ seed }) => toneScenarios({ split: 'train', seed }),
  validation: ({ seed }) => ({ scenarios: toneScenarios({ split: 'val', seed }) }),
  config: ({ step, steps }) => ({
    learning_rate: 1e-3 * Math.max(0.1, 1 - step / steps),
    entropy_coefficient: 0.02 * Math.max(0, 1 - step / (0.6 * steps)),
  }),
});
