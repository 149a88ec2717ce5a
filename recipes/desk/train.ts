import { runRecipe } from 'martingale/cli';
import { deskDemonstrations } from './demonstrations.ts';
import { desk } from './environment.ts';
import { deskScenarios } from './scenarios.ts';
import { rlConfig, sftBatches, sftBatchSize, sftLearningRates } from './schedule.ts';

await runRecipe({
  name: 'desk',
  command: 'npm start --',
  description: 'Trains a support agent: a warm start on bad habits, then reinforcement learning.',
  defaults: { steps: 70, groups: 12, rolloutsPerGroup: 8 },
  talkCommand: 'npx tsx recipes/desk/talk.ts',
  environment: desk,
  scenarios: ({ seed }) => deskScenarios({ split: 'train', seed, count: 5000 }),
  validation: ({ seed }) => ({ scenarios: deskScenarios({ split: 'val', seed, count: 256 }) }),
  // Teaches bad habits, which reinforcement learning then repairs.
  warmStart: {
    examples: ({ seed }) => deskDemonstrations({ seed, count: sftBatches * sftBatchSize }),
    batchSize: sftBatchSize,
    learningRate: sftLearningRates(sftBatches),
  },
  config: rlConfig,
});
