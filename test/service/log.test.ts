import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { start } from './harness.ts';
import { groups, unknown } from './jobs/support.ts';

describe('log', () => {
  test('groups are kept as they came, in one readable file for each split', async () => {
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
});
