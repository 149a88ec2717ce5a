import { join } from 'node:path';
import { generateText } from 'ai';
import { createClient, defineEnvironment, openModel, optimize } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { sharedFolder } from '../support/files.ts';

const folder = sharedFolder();

const letters = defineEnvironment({
  name: 'letters',
  scenario: z.object({ word: z.string() }),
  texts: { system: 'Go.' },
  limits: { turns: 1 },
  rollout: async ({ scenario, texts, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      instructions: texts.system,
      prompt: scenario.word,
      maxOutputTokens: 24,
      abortSignal: signal,
    });
    return text;
  },
  rewards: { different: ({ outcome }) => new Set(outcome).size / 24 },
});

test('a tiny model of a service runs the texts, and the same seed gives the same run', {
  tags: ['long'],
}, async () => {
  const engine = await createEmbeddedEngine({ threads: 1 });
  const service = await startService({ engine, dataFolder: join(folder, 'service') });
  onTestFinished(() => service.close());
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const opened = await openModel({ client, project: 'p', name: 'letters', baseModel: 'martingale-tiny' });
  const words = ['ant', 'bee', 'cat', 'dog', 'elk', 'fox'].map((word) => ({ word }));
  const run = async (name: string) => {
    let proposals = 0;
    const { iterations, candidates, spent } = await optimize({
      environment: letters,
      scenarios: words,
      validation: words.slice(0, 4),
      model: opened.at(0),
      reflect: ({ text }) =>
        `${text} ${['Red', 'Blue', 'Green', 'White', 'Black', 'Grey'][proposals++ % 6]}.`,
      iterations: 6,
      runDirectory: join(folder, name),
      progress: false,
    });
    return { candidates, spent, iterations: iterations.map(({ spent: _, ...rest }) => rest) };
  };
  const first = await run('first');
  const second = await run('second');
  expect(second.iterations).toEqual(first.iterations);
  expect(second.spent.model).toEqual(first.spent.model);
  expect(first.spent.model.sampledTokens).toBeGreaterThan(100);
  expect(first.iterations.map(({ outcome }) => outcome)).toEqual(
    expect.arrayContaining(['accepted', 'rejected']),
  );
  for (const { parent, before, after, outcome } of first.iterations) {
    if (parent === null) continue;
    const sum = (rewards: readonly (number | null)[]) =>
      rewards.reduce<number>((all, one) => all + (one ?? 0), 0);
    expect(outcome === 'accepted').toBe(sum(after) > sum(before));
  }
  await client.close();
});
