import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, test } from 'vitest';
import { RecentPayloads } from '../../../src/service/jobs/packed-trajectories.ts';
import { temporaryFolder } from '../../support/files.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { group, start, trajectory } from '../harness.ts';

const mebibyte = 1024 ** 2;

test('a job is trained on the trajectories that its request brought, without reading them again', async () => {
  const dataFolder = await temporaryFolder();
  const { engine, call, createModel, follow } = await start({ dataFolder });
  const released = Promise.withResolvers<void>();
  engine.hold = () => released.promise;
  const sampled = tokensOf('yes', special.end);
  const trajectory_groups = [group(trajectory(1, sampled), trajectory(0, sampled)), group()];
  const jobs: string[] = [];
  const { id: model_id } = await createModel();
  for (let job = 0; job < 2; job++)
    jobs.push(
      String((await call('POST', '/v1/preview/training-jobs', { model_id, trajectory_groups })).body.id),
    );
  rmSync(join(dataFolder, 'jobs', `${jobs[1]}.jsonl.gz`));
  released.resolve();
  for (const job of jobs) expect((await follow(job)).at(-1)).toMatchObject({ type: 'training_ended' });
});

it('gives the trajectories of a job once', () => {
  const recent = new RecentPayloads();
  recent.keep('a', [null], 100);
  expect(recent.take('a')).toEqual([null]);
  expect(recent.take('a')).toBeNull();
});

it('keeps 8 MiB of the newest jobs', () => {
  const recent = new RecentPayloads();
  for (const job of ['a', 'b', 'c']) recent.keep(job, [null], 3 * mebibyte);
  expect(['a', 'b', 'c'].map((job) => recent.take(job) !== null)).toEqual([false, true, true]);
});
