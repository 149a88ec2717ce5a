// A small recipe on the service of --base-url, whose agent misbehaves as SIGNALS_AGENT says.
import { generateText } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { runRecipe } from 'martingale/cli';
import { z } from 'zod';

const agent = process.env.SIGNALS_AGENT ?? '';

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model, signal }) => {
    if (agent === 'never returns') {
      setInterval(() => undefined, 1000);
      await new Promise(() => undefined);
    }
    if (agent === 'leaks a timer') setInterval(() => undefined, 1000);
    if (agent === 'holds the loop')
      signal.addEventListener('abort', () => {
        for (;;);
      });
    return (await generateText({ model: model.languageModel, prompt: `toss ${id}`, abortSignal: signal }))
      .text;
  },
  rewards: { success: ({ outcome }) => Number(outcome) },
});

await runRecipe({
  name: 'resume',
  command: 'coins',
  description: 'Tosses coins.',
  defaults: { steps: 3, groups: 2, rolloutsPerGroup: 3 },
  learn: ({ model, settings }) =>
    train({
      environment,
      scenarios: [0, 1, 2, 3, 4].map((id) => ({ id })),
      validation: { scenarios: [{ id: 8 }, { id: 9 }] },
      model,
      ...settings,
    }),
});
