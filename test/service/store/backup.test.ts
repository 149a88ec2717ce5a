import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { backUp } from '../../../src/service/store/backup.ts';
import { checkData } from '../../../src/service/store/check-data.ts';
import { temporaryFolder } from '../../support/files.ts';
import type { Json } from '../harness.ts';
import { group, trajectory } from '../harness.ts';
import { open } from '../opened.ts';

const groups = [group(trajectory(1, [65, 258]), trajectory(0, [66, 258]))];

test('a backup of a working service opens, and has all that was acknowledged before it began', async () => {
  const { service, dataFolder, call, createModel } = await open();
  const models: Json[] = [];
  for (let index = 0; index < 3; index++) models.push(await createModel(`agent-${index}`));
  const isAcknowledged = { jobs: new Set<string>(), logs: new Map<string, number>() };
  let isOver = false;
  /** Jobs and logs of one model, one after another. */
  const work = async ({ id }: Json) => {
    while (!isOver) {
      const job = await call('POST', '/v1/preview/training-jobs', {
        model_id: id,
        trajectory_groups: groups,
      });
      if (job.status === 200) isAcknowledged.jobs.add(job.body.id);
      service.queue.wake();
      const log = await call('POST', `/v1/preview/models/${id}/log`, {
        split: 'train',
        trajectory_groups: groups,
      });
      if (log.status === 200) isAcknowledged.logs.set(id, (isAcknowledged.logs.get(id) ?? 0) + 1);
      await nextTick();
    }
  };
  /** Models that come and go. */
  const churn = async () => {
    for (let index = 0; !isOver; index++) {
      const { id } = await createModel(`passing-${index}`);
      await call('POST', `/v1/preview/models/${id}/log`, { split: 'train', trajectory_groups: groups });
      await call('DELETE', `/v1/preview/models/${id}`);
    }
  };
  const working = Promise.all([...models.map(work), churn()]);
  const target = await temporaryFolder();
  const backups: { folder: string; jobs: string[]; logs: Map<string, number> }[] = [];
  for (let index = 0; index < 3; index++) {
    await expect.poll(() => isAcknowledged.jobs.size).toBeGreaterThan(10 * (index + 1));
    const before = { jobs: [...isAcknowledged.jobs], logs: new Map(isAcknowledged.logs) };
    const folder = join(target, `copy-${index}`);
    expect((await backUp(dataFolder, folder)).models).toBeGreaterThanOrEqual(models.length);
    backups.push({ folder, ...before });
  }
  isOver = true;
  await working;
  for (const { folder, jobs, logs } of backups) {
    expect((await checkData(folder))?.problems).toEqual([]);
    const restored = await open({ dataFolder: folder });
    for (const id of jobs)
      expect((await restored.call('GET', `/v1/preview/training-jobs/${id}`)).status).toBe(200);
    for (const { id } of models) {
      const split = await restored.service.store.logEnds(id);
      expect(statSync(join(folder, 'models', id, 'logs/train.jsonl.gz')).size).toBe(split.get('train'));
      expect(split.get('train')).toBeGreaterThan(0);
      expect(logs.get(id) ?? 0).toBeGreaterThan(0);
    }
    // What had not ended goes on.
    restored.service.queue.wake();
    for (const id of jobs)
      await expect
        .poll(async () => (await restored.call('GET', `/v1/preview/training-jobs/${id}`)).body.status)
        .toBe('succeeded');
    expect(restored.log.filter(({ event }) => event === 'file_without_record')).toEqual([]);
    await restored.close();
  }
});

test('a backup that is aborted leaves nothing', async () => {
  const { dataFolder, createModel } = await open();
  await createModel('agent');
  const target = await temporaryFolder();
  const stop = new AbortController();
  const { signal } = stop;
  const look = signal.throwIfAborted.bind(signal);
  const begun: string[] = [];
  // Aborted before the first file of the new folder is copied.
  signal.throwIfAborted = () => {
    begun.push(...readdirSync(target));
    if (begun.length === 1) stop.abort('enough');
    look();
  };
  await expect(backUp(dataFolder, join(target, 'copy'), { signal })).rejects.toBe('enough');
  expect(begun).toHaveLength(1);
  expect(readdirSync(target)).toEqual([]);
});

test('a backup needs a new folder and data, and leaves nothing if it fails', async () => {
  const { dataFolder, createModel } = await open();
  await createModel();
  const target = await temporaryFolder();
  writeFileSync(join(target, 'mine'), '');
  await expect(backUp(dataFolder, target)).rejects.toMatchObject({ code: 'bad_option' });
  await expect(backUp(dataFolder, join(dataFolder, 'copy'))).rejects.toThrow('is in the data folder');
  // Node's recursive `mkdir` never returns there.
  if (existsSync('/proc/self')) await expect(backUp(dataFolder, '/proc/x')).rejects.toThrow('ENOENT');
  await expect(backUp(target, join(target, 'copy'))).rejects.toMatchObject({ code: 'data_folder_not_found' });
  // A file in place of the folder of uploads: the backup cannot be complete.
  mkdirSync(join(target, 'broken'));
  writeFileSync(join(target, 'broken', 'martingale.sqlite'), 'no database');
  await expect(backUp(join(target, 'broken'), join(target, 'copy'))).rejects.toThrow();
  expect(readdirSync(target).sort()).toEqual(['broken', 'mine']);
});
