import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { start } from './harness.ts';
import { groups, unknown } from './jobs/support.ts';

describe('log', () => {
  test('groups are stored unchanged, in one readable file for each split', async () => {
    const { call, createModel, dataFolder } = await start();
    const model = await createModel();
    const path = `/v1/preview/models/${model.id}/log`;
    const body = {
      model_id: model.id,
      split: 'train',
      trajectory_groups: [{ ...groups[0], colour: 'kept' }],
    };
    const answers = await Promise.all([
      call('POST', path, body),
      call('POST', path, body),
      call('POST', path, body),
    ]);
    for (const answer of answers)
      expect(answer.body).toEqual({ split: 'train', num_groups: 1, num_trajectories: 2 });
    await call('POST', path, { ...body, split: '../val' });
    const logs = join(dataFolder, 'models', model.id, 'logs');
    expect(readdirSync(logs).sort()).toEqual(['..%2Fval.jsonl.gz', 'train.jsonl.gz']);
    const text = (await promisify(gunzip)(await readFile(join(logs, 'train.jsonl.gz')))).toString('utf8');
    expect(
      text
        .trim()
        .split('\n')
        .map((entry) => JSON.parse(entry).colour),
    ).toEqual(['kept', 'kept', 'kept']);
    expect((await call('POST', path, { ...body, model_id: unknown })).status).toBe(422);
    expect((await call('POST', path, { ...body, split: '' })).status).toBe(422);
  });

  test('file names of splits differ not only by case, and each file continues after a restart', async () => {
    const dataFolder = await temporaryFolder();
    const before = await start({ dataFolder });
    const model = await before.createModel();
    const path = `/v1/preview/models/${model.id}/log`;
    const splits = ['Train', 'train', 'TRAIN', 'É', 'é', 'e%4a', 'eJ', 'x'.repeat(64), 'X'.repeat(64)];
    for (const split of splits)
      expect((await before.call('POST', path, { split, trajectory_groups: groups })).status).toBe(200);
    const logs = join(dataFolder, 'models', model.id, 'logs');
    const names = readdirSync(logs);
    expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(splits.length);
    await before.service.close();

    const lines = async (name: string) =>
      (await promisify(gunzip)(await readFile(join(logs, name)))).toString('utf8').trim().split('\n').length;
    const after = await start({ dataFolder });
    expect(readdirSync(logs).sort()).toEqual(names.sort());
    await after.call('POST', path, { split: 'Train', trajectory_groups: groups });
    expect(await lines('%54rain.jsonl.gz')).toBe(2 * (await lines('train.jsonl.gz')));
  });
});
