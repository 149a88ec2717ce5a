import { runRecipe } from 'martingale/cli';
import environment, { scenarios } from './environment.ts';

// `npm start -- --help` lists what can be set: steps, seed, --checkpoint for real weights, --base-url for a service.
await runRecipe({
  name: 'crossing',
  environment,
  scenarios,
  validation: { scenarios },
  defaults: { steps: 40, groups: 6 },
});
