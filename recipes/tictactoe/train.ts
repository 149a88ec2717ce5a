import { runRecipe } from 'martingale/cli';
import { ticTacToe } from './environment.ts';
import { perfectPlayer } from './players.ts';
import { openings } from './scenarios.ts';

await runRecipe({
  name: 'tic-tac-toe',
  description: 'Learns tic-tac-toe by playing against itself, from random weights.',
  defaults: { steps: 120, groups: 32, rolloutsPerGroup: 8 },
  environment: ticTacToe,
  scenarios: ({ seed }) => openings({ seed, count: 10_000 }),
  // Success against the perfect player: the share of games in which the model makes no mistake.
  validation: { scenarios: openings({ seed: 0, count: 200 }), seats: { x: perfectPlayer }, everySteps: 25 },
  config: ({ step, steps }) => ({
    learning_rate: 2e-3 * Math.max(0.1, 1 - step / steps),
    entropy_coefficient: 0.03 * Math.max(0, 1 - step / (0.8 * steps)),
  }),
});
