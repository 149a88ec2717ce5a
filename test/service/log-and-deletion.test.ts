import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { door } from '../support/scripted-engine.ts';
import { groups } from './jobs/support.ts';
import { open } from './opened.ts';

test('a log to a model that is deleted meanwhile is a 404, and leaves no file', async () => {
  const { service, call, createModel, dataFolder, log } = await open();
  const model = await createModel();
  const path = `/v1/preview/models/${model.id}`;
  const write = (split: string) => call('POST', `${path}/log`, { split, trajectory_groups: groups });
  expect((await write('train')).status).toBe(200);

  const held = door();
  const append = service.files.appendLog.bind(service.files);
  service.files.appendLog = (modelId, split, end, members) => {
    // The file of the split is open by then.
    const waiting = async function* () {
      await held.wait();
      yield* members;
    };
    return append(modelId, split, end, split === 'val' ? waiting() : members);
  };
  const writing = write('val');
  await held.reached;
  const behind = write('test');
  const deletion = call('DELETE', path);
  await expect.poll(async () => (await call('GET', path)).status).toBe(404);
  held.open();
  expect((await deletion).status).toBe(200);
  expect([(await writing).status, (await behind).status]).toEqual([404, 404]);
  expect(existsSync(join(dataFolder, 'models', model.id))).toBe(false);
  expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
  expect(log.filter(({ level }) => level !== 'info')).toEqual([]);
});
