import { train } from 'martingale';
import { runRecipe } from 'martingale/cli';
import { deskDemonstrations } from './demonstrations.ts';
import { desk } from './environment.ts';
import { deskScenarios } from './scenarios.ts';
import { rlConfig, supervisedBatches, supervisedBatchSize, supervisedLearningRates } from './schedule.ts';

const validationScenarios = 256;
const trainingScenarios = 5000;

await runRecipe({
  name: 'desk',
  command: 'npm start --',
  description: 'Trains a support agent: a warm start on bad habits, then reinforcement learning.',
  defaults: { steps: 120, groups: 12, rolloutsPerGroup: 8 },
  talkCommand: 'npx tsx recipes/desk/talk.ts',
  learn: ({ model, settings }) =>
    train({
      environment: desk,
      scenarios: deskScenarios({ split: 'train', seed: settings.seed, count: trainingScenarios }),
      validation: {
        scenarios: deskScenarios({ split: 'val', seed: settings.seed, count: validationScenarios }),
      },
      // Teaches the bad habits that reinforcement learning then repairs.
      warmStart: {
        examples: ({ seed }) => deskDemonstrations({ seed, count: supervisedBatches * supervisedBatchSize }),
        batchSize: supervisedBatchSize,
        learningRate: supervisedLearningRates(supervisedBatches),
      },
      model,
      config: rlConfig,
      ...settings,
    }),
});
