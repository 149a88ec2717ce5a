// Files written before a record that cannot be stored are removed, and a record is acknowledged only when the folders
// above its file are on disk.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { group, trajectory } from '../../service/harness.ts';
import { temporaryFolder } from '../../support/files.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { type FaultOrder, type FaultPoint, underFaults } from '../driver/fault.ts';
import { start } from './started.ts';

const sampled = tokensOf('yes', special.end);
const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
const line = (reply: number) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: `${reply}` },
    ],
  });

async function startUnderFaults() {
  const folder = await temporaryFolder();
  const dataFolder = join(folder, 'data');
  const [journal, orders] = [join(folder, 'journal'), join(folder, 'orders')];
  const service = await start(dataFolder, underFaults({ root: dataFolder, journal, orders }));
  const { body: model } = await service.call('POST', '/v1/preview/models', {
    ...{ project: 'desk', name: 'agent', base_model: 'scripted-tiny' },
  });
  return {
    ...service,
    model,
    path: `/v1/preview/models/${model.id}`,
    give: (order: FaultOrder) => writeFileSync(orders, JSON.stringify(order)),
    lift: () => rmSync(orders, { force: true }),
    names: (...place: string[]) => readdirSync(join(dataFolder, ...place)).sort(),
    steps: (): string[] =>
      readFileSync(journal, 'utf8')
        .trimEnd()
        .split('\n')
        .map((step) => (JSON.parse(step) satisfies FaultPoint).name),
  };
}

test('a job, group, upload or fork whose record does not fit on the disk leaves nothing behind', async () => {
  const { call, follow, model, path, give, lift, names } = await startUnderFaults();
  const train = () =>
    call('POST', '/v1/preview/training-jobs', { model_id: model.id, trajectory_groups: groups });
  expect((await follow((await train()).body.id)).at(-1)?.type).toBe('training_ended');
  const upload = (reply: number) => call('POST', '/v1/preview/uploads', line(reply));
  expect((await upload(0)).status).toBe(200);
  const group = (reply: number) => call('POST', `${path}/groups`, { ...groups[0], metadata: { reply } });
  expect((await group(0)).status).toBe(200);
  const stored = () => ({
    uploads: names('uploads'),
    models: names('models'),
    groups: names('models', model.id, 'groups'),
  });
  const before = stored();
  for (const [name, request] of [
    ['commit insert jobs', train],
    ['sync jobs', train],
    ['commit insert groups', group],
    ['sync models/<id>/groups', group],
    ['commit insert uploads', upload],
    ['sync uploads', upload],
    ['commit insert models, insert checkpoints', () => call('POST', `${path}/fork`, { name: 'fork' })],
  ] as const) {
    give({ mode: 'ENOSPC', name });
    for (const reply of [1, 2]) expect((await request(reply)).status, name).toBe(503);
    expect([name, names('jobs'), names('incoming'), stored()]).toEqual([name, [], [], before]);
  }
  lift();
  expect((await follow((await train()).body.id)).at(-1)?.data.step).toBe(2);
  expect((await upload(1)).status).toBe(200);
  expect((await group(1)).status).toBe(200);
  expect((await call('POST', `${path}/fork`, { name: 'fork' })).status).toBe(200);
});

test('the first log of a model is acknowledged after its file and the folders above it are on disk', async () => {
  const { call, path, steps } = await startUnderFaults();
  const log = () => call('POST', `${path}/log`, { split: 'train', trajectory_groups: groups });
  const before = steps().length;
  expect((await log()).status).toBe(200);
  const taken = steps().slice(before);
  const synced = taken.slice(0, taken.indexOf('commit insert logs')).filter((step) => /^sync m/.test(step));
  expect(synced).toEqual([
    'sync models/<id>/logs/train.jsonl.gz',
    ...['sync models/<id>/logs', 'sync models/<id>', 'sync models'],
  ]);
});
