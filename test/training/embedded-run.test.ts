import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient, openModel, sft, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { describe, expect, it } from 'vitest';
import { deskDemonstrations } from '../../recipes/desk/demonstrations.ts';
import { desk } from '../../recipes/desk/environment.ts';
import { deskScenarios } from '../../recipes/desk/scenarios.ts';
import { sharedFolder } from '../support/files.ts';

describe.each([
  { steps: 2, supervised: 2, options: {} },
  { steps: 3, supervised: 4, options: { tags: ['long'] } },
])('a run of $steps steps on the embedded engine', ({ steps, supervised, options }) => {
  const folder = sharedFolder();

  /** The service on a data folder, for as long as `use` takes. */
  async function served<Result>(
    data: string,
    use: (client: ReturnType<typeof createClient>) => Promise<Result>,
  ) {
    const engine = await createEmbeddedEngine({ threads: 1 });
    const service = await startService({ engine, dataFolder: join(folder, data) });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    try {
      return await use(client);
    } finally {
      await client.close();
      await service.close();
      await engine.close();
    }
  }

  const open = (client: ReturnType<typeof createClient>) =>
    openModel({ client, project: 'desk', name: 'again', baseModel: 'martingale-tiny' });

  const learn = (client: ReturnType<typeof createClient>, runDirectory: string, concurrency: number) =>
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

  const start = async (client: ReturnType<typeof createClient>) =>
    sft({
      model: await open(client),
      examples: await deskDemonstrations({ seed: 5, count: supervised * 8 }),
      batchSize: 8,
      learningRate: 1e-3,
    });

  /** Token ids and log-probabilities of all choices of a run, in the order of its records. */
  async function sampled(runDirectory: string): Promise<unknown[]> {
    const trajectories = join(folder, runDirectory, 'trajectories');
    const found: unknown[] = [];
    for (const name of (await readdir(trajectories)).sort())
      for (const line of (await readFile(join(trajectories, name), 'utf8')).trim().split('\n'))
        JSON.parse(line, (_key, value) => {
          if (Array.isArray(value?.token_ids) && value.logprobs)
            found.push([
              value.token_ids,
              value.logprobs.content.map(({ logprob }: { logprob: number }) => logprob),
            ]);
          return value;
        });
    return found;
  }

  async function weightsOf(data: string): Promise<string> {
    const files = await readdir(join(folder, data), { recursive: true });
    const newest = files
      .filter((name) => name.endsWith('model.safetensors'))
      .sort()
      .at(-1);
    return createHash('sha256')
      .update(await readFile(join(folder, data, newest ?? '')))
      .digest('hex');
  }

  it(
    'is the same for the same seed, token for token and weight for weight, whatever runs concurrently',
    options,
    async () => {
      for (const [name, concurrency] of [
        ['one', 16],
        ['other', 3],
      ] as const)
        await served(`${name}-data`, async (client) => {
          await start(client);
          await learn(client, name, concurrency);
        });
      const one = await sampled('one');
      expect(one.length).toBeGreaterThan(steps * 16);
      expect(await sampled('other')).toEqual(one);
      expect(await weightsOf('other-data')).toBe(await weightsOf('one-data'));
    },
  );

  it('loses nothing if the service restarts between two jobs', options, async () => {
    await served('again-data', start);
    const { reports } = await served('again-data', (client) => learn(client, 'again', 16));
    expect(reports).toHaveLength(steps);
    expect(reports.map(({ policy }) => policy)).toEqual(
      reports.map((_, index) => `local/desk/again:step${1 + index}`),
    );
    expect(await sampled('again')).toEqual(await sampled('one'));
    await served('again-data', async (client) => {
      expect((await open(client)).name).toBe(`local/desk/again:step${1 + steps}`);
    });
  });
});
