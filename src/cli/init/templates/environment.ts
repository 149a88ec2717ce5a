import { generateText, type LanguageModel, Output } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

const answer = z.object({ word: z.enum(['stop', 'slow', 'go']) });

/** Your agent. Nothing in it knows about training. */
async function decide(model: LanguageModel, light: string, abortSignal: AbortSignal): Promise<string> {
  const { output } = await generateText({
    model,
    prompt: `the light is ${light}`,
    output: Output.object({ schema: answer }),
    abortSignal,
  });
  return output.word;
}

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: ({ scenario, model, signal }) => decide(model.languageModel, scenario.light, signal),
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
