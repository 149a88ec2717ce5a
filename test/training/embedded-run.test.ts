import { join } from 'node:path';
import { type Client, openModel, sft, train } from 'martingale';
import { describe, expect, it } from 'vitest';
import { deskDemonstrations } from '../../recipes/desk/demonstrations.ts';
import { desk } from '../../recipes/desk/environment.ts';
import { deskScenarios } from '../../recipes/desk/scenarios.ts';
import { sharedFolder } from '../support/files.ts';
import { sampledIn, served, weightsIn } from './same-run.ts';

describe.each([
  { steps: 2, supervised: 2, options: {} },
  { steps: 3, supervised: 4, options: { tags: ['long'] } },
])('a run of $steps steps on the embedded engine', ({ steps, supervised, options }) => {
  const folder = sharedFolder();

  const open = (client: Client) =>
    openModel({ client, project: 'desk', name: 'again', baseModel: 'martingale-tiny' });

  const learn = (client: Client, runDirectory: string, concurrency: number) =>
    open(client).then((model) =>
      train({
        environment: desk,
        scenarios: deskScenarios({ split: 'train', seed: 5, count: 50 }),
        model,
        steps,
        groupsPerStep: 4,
        rolloutsPerGroup: 4,
        config: { learning_rate: 1e-3, entropy_coefficient: 0.01 },
        seed: 5,
        concurrency,
        runDirectory: join(folder, runDirectory),
      }),
    );

  const start = async (client: Client) =>
    sft({
      model: await open(client),
      examples: await deskDemonstrations({ seed: 5, count: supervised * 8 }),
      batchSize: 8,
      learningRate: 1e-3,
    });

  it(
    'is the same for the same seed, token for token and weight for weight, whatever runs concurrently',
    options,
    async () => {
      for (const [name, concurrency] of [
        ['one', 16],
        ['other', 3],
      ] as const)
        await served(join(folder, `${name}-data`), async (client) => {
          await start(client);
          await learn(client, name, concurrency);
        });
      const one = await sampledIn(join(folder, 'one'));
      expect(one.length).toBeGreaterThan(steps * 16);
      expect(await sampledIn(join(folder, 'other'))).toEqual(one);
      expect(await weightsIn(join(folder, 'other-data'))).toBe(await weightsIn(join(folder, 'one-data')));
    },
  );

  it('loses nothing if the service restarts between two jobs', options, async () => {
    await served(join(folder, 'again-data'), start);
    const { reports } = await served(join(folder, 'again-data'), (client) => learn(client, 'again', 16));
    expect(reports).toHaveLength(steps);
    expect(reports.map(({ policy }) => policy)).toEqual(
      reports.map((_, index) => `local/desk/again:step${1 + index}`),
    );
    expect(await sampledIn(join(folder, 'again'))).toEqual(await sampledIn(join(folder, 'one')));
    await served(join(folder, 'again-data'), async (client) => {
      expect((await open(client)).name).toBe(`local/desk/again:step${1 + steps}`);
    });
  });
});
