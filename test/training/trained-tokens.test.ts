import { generateText } from 'ai';
import { createClient, defineEnvironment, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { RunViews } from '../../src/view/run-views.ts';
import { sharedFolder } from '../support/files.ts';

const folder = sharedFolder();

const environment = defineEnvironment({
  name: 'letters',
  scenario: z.string(),
  rollout: async ({ scenario, model }) => {
    const ask = (prompt: string) => generateText({ model: model.languageModel, prompt, maxOutputTokens: 6 });
    const first = await ask(scenario);
    const { text } = await ask(`${scenario} and again`);
    return `${first.text}${text}`;
  },
  rewards: { letters: ({ outcome }) => outcome.replaceAll(/[^a-m]/g, '').length },
});

it('a run keeps what its jobs found of each token: the log-probability, and whether the loss was clipped', async () => {
  const engine = await createEmbeddedEngine({ threads: 1 });
  onTestFinished(() => engine.close());
  const service = await startService({ engine, dataFolder: `${folder}/data` });
  onTestFinished(() => service.close());
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  onTestFinished(() => client.close());
  const runDirectory = `${folder}/run`;
  const runOf = (config: object, name: string) =>
    train({
      environment,
      scenarios: ['a', 'b'],
      client,
      model: { project: 'letters', name, baseModel: 'martingale-tiny' },
      steps: 1,
      groupsPerStep: 2,
      rolloutsPerGroup: 3,
      seed: 3,
      runDirectory: `${runDirectory}/${name}`,
      config,
      progress: false,
    });
  await runOf({}, 'plain');
  // No ratio is within (1, 1), so the mask removes every token.
  await runOf({ epsilon: 0, epsilon_high: 0, mask_prob_ratio: true }, 'masked');
  for (const name of ['plain', 'masked']) {
    const views = new RunViews([`${runDirectory}/${name}`]);
    const [run] = (await views.list()).runs;
    const { groups } = await views.step(run?.id ?? '', '0');
    let trained = 0;
    for (const { group, rollouts, hasSignal } of groups)
      for (const { rollout } of rollouts) {
        const { histories } = await views.rollout(run?.id ?? '', '0', group, rollout);
        const replies = histories.flatMap((history) => history.replies);
        expect(replies).toHaveLength(2);
        for (const { tokens, trains } of replies) {
          for (const { logprob, trainedLogprob, clipped } of tokens) {
            if (!hasSignal || !trains || logprob === 0) continue;
            trained++;
            expect(Math.abs((trainedLogprob ?? Number.NaN) - (logprob ?? Number.NaN))).toBeLessThan(1e-4);
            expect(clipped).toBe(name === 'masked');
          }
          if (!hasSignal) expect(tokens.every(({ trainedLogprob }) => trainedLogprob === null)).toBe(true);
        }
      }
    expect(trained).toBeGreaterThan(20);
  }
});
