import { train } from 'martingale';
import { runRecipe } from 'martingale/cli';
import { tone } from './environment.ts';
import { toneScenarios } from './scenarios.ts';

await runRecipe({
  name: 'tone',
  command: 'npx tsx recipes/tone/train.ts',
  description:
    'Learns to answer in the tone that a judge prefers: it compares replies, and says nothing else.',
  defaults: { steps: 200, groups: 12, rolloutsPerGroup: 8 },
  learn: ({ model, settings }) =>
    train({
      environment: tone,
      scenarios: toneScenarios({ split: 'train', seed: settings.seed }),
      validation: { scenarios: toneScenarios({ split: 'val', seed: settings.seed }) },
      model,
      config: ({ step, steps }) => ({
        learning_rate: 1e-3 * Math.max(0.1, 1 - step / steps),
        entropy_coefficient: 0.02 * Math.max(0, 1 - step / (0.6 * steps)),
      }),
      ...settings,
    }),
});
