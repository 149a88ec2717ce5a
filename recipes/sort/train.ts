import { runRecipe } from 'martingale/cli';
import { sortDemonstrations } from './demonstrations.ts';
import { sort } from './environment.ts';
import { sortScenarios } from './scenarios.ts';

const sftBatches = 200;
const sftBatchSize = 32;

/** Rises to 1.5e-3 over 20 batches, then falls to a tenth of it. */
const sftLearningRates = Array.from(
  { length: sftBatches },
  (_, batch) => 1.5e-3 * Math.min(1, (batch + 1) / 20) * (1 - (0.9 * batch) / sftBatches),
);

await runRecipe({
  name: 'sort',
  description: 'Learns to sort digits: from demonstrations that stop too early, then from rewards.',
  defaults: { steps: 200, groups: 12, rolloutsPerGroup: 8 },
  environment: sort,
  scenarios: ({ seed }) => sortScenarios({ split: 'train', seed, count: 5000 }),
  validation: ({ seed }) => ({ scenarios: sortScenarios({ split: 'val', seed, count: 256 }) }),
  warmStart: {
    examples: ({ seed }) => sortDemonstrations({ seed, count: sftBatches * sftBatchSize }),
    batchSize: sftBatchSize,
    learningRate: sftLearningRates,
  },
  config: ({ step, steps }) => ({
    learning_rate: 1e-3 * Math.max(0.1, 1 - step / steps),
    entropy_coefficient: 0.01 * Math.max(0, 1 - step / (0.6 * steps)),
  }),
});
