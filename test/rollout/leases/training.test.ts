import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Client, openModel, type RolloutExecutor, train } from 'martingale';
import { leases } from 'martingale/workers';
import { expect, it } from 'vitest';
import { desk } from '../../../recipes/desk/environment.ts';
import { deskScenarios } from '../../../recipes/desk/scenarios.ts';
import { temporaryFolder } from '../../support/files.ts';
import { sampledIn, served, weightsIn } from '../../training/same-run.ts';
import { joined, startWorker } from './workers.ts';

const module = new URL('../../../recipes/desk/environment.ts', import.meta.url);

const learn = async (client: Client, runDirectory: string, executor?: RolloutExecutor) =>
  train({
    environment: desk,
    scenarios: deskScenarios({ split: 'train', seed: 5, count: 50 }),
    model: await openModel({ client, project: 'desk', name: 'same', baseModel: 'martingale-tiny' }),
    steps: 3,
    groupsPerStep: 4,
    rolloutsPerGroup: 4,
    config: { learning_rate: 1e-3, entropy_coefficient: 0.01 },
    seed: 5,
    runDirectory,
    ...(executor ? { executor } : {}),
  });

it('the same seed gives the same run in one process and on three workers, one of which is killed', {
  tags: ['long'],
  timeout: 120_000,
}, async () => {
  const folder = await temporaryFolder();
  const path = (name: string) => join(folder, name);
  const alone = await served(path('data'), (client) => learn(client, path('alone')));
  const shared = await served(path('other-data'), async (client) => {
    const executor = await leases({
      environment: module,
      exportName: 'desk',
      port: 0,
      leaseMs: 800,
      onEvent: () => {},
    });
    const [doomed] = [1, 2, 3].map(() =>
      startWorker(['--url', executor.url, '--export', 'desk'], { file: fileURLToPath(module) }),
    );
    await joined(executor, 3);
    const running = learn(client, path('shared'), executor);
    while ((executor.stats().workers[0]?.ended ?? 0) < 8) await new Promise((next) => setTimeout(next, 5));
    doomed?.process.kill('SIGKILL');
    const result = await running;
    await executor.close();
    return result;
  });
  const figuresOf = ({ reports }: typeof alone) =>
    reports.map(({ step, reward, completed, metrics }) => ({ step, reward, completed, metrics }));
  expect(figuresOf(shared)).toEqual(figuresOf(alone));
  expect(await sampledIn(path('shared'))).toEqual(await sampledIn(path('alone')));
  expect(await weightsIn(path('other-data'))).toBe(await weightsIn(path('data')));
});
