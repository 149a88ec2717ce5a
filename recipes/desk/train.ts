import { supervise, train } from 'martingale';
import { type Recipe, runRecipe } from 'martingale/cli';
import { deskDemonstrations } from './demonstrations.ts';
import { desk } from './environment.ts';
import { deskScenarios } from './scenarios.ts';
import { rlConfig, supervisedBatches, supervisedBatchSize, supervisedLearningRates } from './schedule.ts';

const validationScenarios = 256;
const trainingScenarios = 5000;

/** Teaches the bad habits, then lets reinforcement learning repair them. */
const learn: Recipe['learn'] = async ({ model, settings }) => {
  const { seed, resume, onEvent, signal } = settings;
  const started = resume
    ? { model }
    : await supervise({
        model,
        examples: await deskDemonstrations({ seed, count: supervisedBatches * supervisedBatchSize }),
        batchSize: supervisedBatchSize,
        learningRate: supervisedLearningRates(supervisedBatches),
        phase: 'supervised start',
        onEvent,
        signal,
      });
  return train({
    environment: desk,
    scenarios: deskScenarios({ split: 'train', seed, count: trainingScenarios }),
    validation: { scenarios: deskScenarios({ split: 'val', seed, count: validationScenarios }) },
    model: started.model,
    config: rlConfig,
    ...settings,
  });
};

await runRecipe({
  name: 'desk',
  command: 'npm start --',
  description: 'Trains a support agent: a supervised start on bad habits, then reinforcement learning.',
  defaults: { steps: 120, groups: 12, rolloutsPerGroup: 8 },
  talkCommand: 'npx tsx recipes/desk/talk.ts',
  learn,
});
