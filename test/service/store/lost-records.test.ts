import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { backUp } from '../../../src/service/store/backup.ts';
import { checkData } from '../../../src/service/store/check-data.ts';
import { keptMs } from '../../../src/service/store/cleaning.ts';
import { quarantineMs } from '../../../src/service/store/quarantine.ts';
import { rebuildRecords } from '../../../src/service/store/rebuild.ts';
import { temporaryFolder } from '../../support/files.ts';
import { group, trajectory } from '../harness.ts';
import { open } from '../opened.ts';

/** All files of a folder with their contents. */
const filesIn = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !/\.lock$|-shm$/.test(path))
      .sort()
      .map((path) => [path.slice(folder.length), readFileSync(path).toString('base64')]),
  );

/** A data folder after a service: two models, one trained twice and with a log. */
async function withModels() {
  const { service, dataFolder, call, createModel, close } = await open();
  const model = await createModel();
  const other = await createModel('other');
  const job = {
    model_id: model.id,
    trajectory_groups: [group(trajectory(1, [65, 258]), trajectory(0, [66, 258]))],
  };
  for (let step = 1; step <= 2; step++) {
    const { status, body } = await call('POST', '/v1/preview/training-jobs', job);
    expect([status, body]).toMatchObject([200, { id: expect.any(String) }]);
    service.queue.wake();
    await expect
      .poll(async () => (await call('GET', `/v1/preview/training-jobs/${body.id}`)).body.status)
      .toBe('succeeded');
  }
  const log = { split: 'train', trajectory_groups: [group(trajectory(1, [1]), trajectory(0, [1]))] };
  expect((await call('POST', `/v1/preview/models/${model.id}/log`, log)).status).toBe(200);
  await close();
  return { dataFolder, model, other };
}

const database = (folder: string) => join(folder, 'martingale.sqlite');
const removeDatabase = (folder: string) => {
  for (const end of ['', '-wal', '-shm']) rmSync(database(folder) + end, { force: true });
};
const refusal = (dataFolder: string) =>
  open({ dataFolder }).then(
    () => 'opened',
    ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
  );

describe('a start without records', () => {
  test.each<[string, (folder: string) => void]>([
    ['without a database', removeDatabase],
    [
      'with an empty file as database',
      (folder) => {
        removeDatabase(folder);
        writeFileSync(database(folder), '');
      },
    ],
  ])('is refused and changes nothing: %s', async (_, lose) => {
    const { dataFolder } = await withModels();
    lose(dataFolder);
    const before = filesIn(join(dataFolder, 'models'));
    expect(await refusal(dataFolder)).toMatch(
      /^records_missing: .* has no records, but there are files of 1 model /,
    );
    expect(filesIn(join(dataFolder, 'models'))).toEqual(before);
    expect(existsSync(`${database(dataFolder)}-wal`)).toBe(false);
  });

  test('is refused with a new database of no models', async () => {
    const { dataFolder } = await withModels();
    removeDatabase(dataFolder);
    const { dataFolder: empty } = await open();
    await backUp(empty, join(dataFolder, 'copy'));
    renameSync(database(join(dataFolder, 'copy')), database(dataFolder));
    expect(await refusal(dataFolder)).toMatch(/^records_missing/);
  });

  test('is refused with a damaged database, with what to do', async () => {
    const { dataFolder } = await withModels();
    removeDatabase(dataFolder);
    writeFileSync(database(dataFolder), 'this is no database, whatever its name says'.repeat(100));
    expect(await refusal(dataFolder)).toMatch(
      /^database_damaged: .* is damaged: .*martingale doctor --data <folder> --repair/,
    );
    expect((await checkData(dataFolder))?.problems.join()).toContain('is damaged');
  });

  test('is possible again after a repair: names, weights, steps and logs are there', async () => {
    const { dataFolder, model, other } = await withModels();
    writeFileSync(database(dataFolder), 'damaged'.repeat(1000));
    const rebuilt = await rebuildRecords(dataFolder);
    expect(rebuilt).toMatchObject({ models: 2, checkpoints: 4, logs: 1, lost: [] });
    expect(readFileSync(rebuilt.oldDatabase ?? '', 'utf8')).toContain('damaged');
    const { call, log } = await open({ dataFolder });
    const { body } = await call('GET', '/v1/preview/models');
    expect(body.data.map(({ id }: { id: string }) => id).sort()).toEqual([model.id, other.id].sort());
    const { body: checkpoints } = await call('GET', `/v1/preview/models/${model.id}/checkpoints`);
    expect(checkpoints.data.map(({ step }: { step: number }) => step)).toEqual([0, 1, 2]);
    expect(log.filter(({ event }) => event === 'file_without_record')).toEqual([]);
  });
});

describe('records that are older than files', () => {
  test('move the files to the quarantine, where they stay for a week', async () => {
    const { dataFolder, model } = await withModels();
    const folder = join(dataFolder, 'models', model.id);
    const before = {
      weights: filesIn(join(folder, 'checkpoints/step-2')),
      log: readFileSync(join(folder, 'logs/train.jsonl.gz')),
    };
    const sqlite = new DatabaseSync(database(dataFolder));
    sqlite.exec(
      "DELETE FROM checkpoints WHERE step = 2; DELETE FROM logs; UPDATE models SET last_step = 1 WHERE last_step = 2; DELETE FROM models WHERE name = 'other'",
    );
    sqlite.close();
    const upload = `${'0'.repeat(64)}.jsonl`;
    writeFileSync(join(dataFolder, 'uploads', upload), 'mine');
    const payload = `${randomUUID()}.jsonl.gz`;
    writeFileSync(join(dataFolder, 'jobs', payload), 'mine');
    const { log, close } = await open({ dataFolder });
    await close();
    const moved = log.filter(({ event }) => event === 'file_without_record');
    expect(moved).toHaveLength(4);
    const [at = ''] = readdirSync(join(dataFolder, 'quarantine'));
    const kept = join(dataFolder, 'quarantine', at);
    expect(filesIn(join(kept, 'models', model.id, 'checkpoints/step-2'))).toEqual(before.weights);
    expect(readFileSync(join(kept, 'models', model.id, 'logs/train.jsonl.gz'))).toEqual(before.log);
    expect(existsSync(join(kept, 'uploads', upload)) && existsSync(join(kept, 'jobs', payload))).toBe(true);
    const old = new Date(Date.now() - quarantineMs - 60_000).toISOString().slice(0, 19).replaceAll(':', '-');
    renameSync(kept, join(dataFolder, 'quarantine', `${old}-00000000`));
    mkdirSync(join(dataFolder, 'quarantine', 'mine'));
    utimesSync(join(dataFolder, 'quarantine', 'mine'), 0, 0);
    await open({ dataFolder });
    expect(readdirSync(join(dataFolder, 'quarantine'))).toEqual(['mine']);
    expect(keptMs).toBeGreaterThan(quarantineMs);
  });

  test('keep the end of a log that they do not know', async () => {
    const { dataFolder, model } = await withModels();
    const path = join(dataFolder, 'models', model.id, 'logs/train.jsonl.gz');
    const known = readFileSync(path);
    writeFileSync(path, Buffer.concat([known, Buffer.from('acknowledged later')]));
    await open({ dataFolder });
    expect(readFileSync(path)).toEqual(known);
    const [at = ''] = readdirSync(join(dataFolder, 'quarantine'));
    const end = join(
      dataFolder,
      'quarantine',
      at,
      'models',
      model.id,
      'logs',
      `train.jsonl.gz.from-${known.length}`,
    );
    expect(readFileSync(end, 'utf8')).toBe('acknowledged later');
  });
});

describe('a data folder of somebody else', () => {
  test.each([
    ['a folder outside', '../victim'],
    ['an absolute path', '/tmp'],
    ['another model', 'models/x/../y/checkpoints/step-1'],
  ])('removes nothing by a checkpoint that names %s', async (_, folder) => {
    const { dataFolder, model } = await withModels();
    const victim = join(dataFolder, '..', `victim-${randomUUID()}`);
    mkdirSync(victim);
    writeFileSync(join(victim, 'precious'), '');
    const sqlite = new DatabaseSync(database(dataFolder));
    sqlite
      .prepare('UPDATE checkpoints SET folder = ? WHERE step = 1')
      .run(folder.replace('victim', victim.split('/').at(-1) ?? ''));
    sqlite.close();
    const { call, log } = await open({ dataFolder });
    expect((await call('DELETE', `/v1/preview/models/${model.id}`)).status).toBe(200);
    expect(log.find(({ event }) => event === 'removal_failed')?.error).toContain(
      'which the service did not write',
    );
    expect(readdirSync(victim)).toEqual(['precious']);
    rmSync(victim, { recursive: true });
  });

  test('follows no link in place of a folder of checkpoints', async () => {
    const { dataFolder, model } = await withModels();
    const victim = await temporaryFolder();
    mkdirSync(join(victim, 'step-1'));
    writeFileSync(join(victim, 'step-1', 'precious'), '');
    const checkpoints = join(dataFolder, 'models', model.id, 'checkpoints');
    renameSync(checkpoints, `${checkpoints}-away`);
    symlinkSync(victim, checkpoints);
    const { call } = await open({ dataFolder });
    await call('DELETE', `/v1/preview/models/${model.id}`);
    expect(readdirSync(join(victim, 'step-1'))).toEqual(['precious']);
  });

  test.each([
    ['trigger', 'CREATE TRIGGER evil AFTER DELETE ON models BEGIN DELETE FROM jobs; END'],
    ['view', 'CREATE VIEW evil AS SELECT 1'],
    ['table', 'CREATE TABLE evil (a)'],
  ])('is refused for a %s that is not ours', async (type, sql) => {
    const { dataFolder } = await withModels();
    const sqlite = new DatabaseSync(database(dataFolder));
    sqlite.exec(sql);
    sqlite.close();
    expect(await refusal(dataFolder)).toContain(
      `data_folder_damaged: The database of the data folder has the ${type} "evil"`,
    );
  });

  test.each([
    ['checkpoints', 'metrics', 'x'],
    ['models', 'forked_from_model', 'x'],
    ['logs', 'bytes', -10_000],
  ])('is refused for a value of %s.%s that no service wrote', async (table, column, value) => {
    const { dataFolder } = await withModels();
    const sqlite = new DatabaseSync(database(dataFolder));
    sqlite.exec('PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON');
    sqlite.prepare(`UPDATE ${table} SET ${column} = ?`).run(value);
    sqlite.close();
    expect(await refusal(dataFolder)).toMatch(
      /^data_folder_damaged: A record of the data folder has .* as its \w+.*, which the service did not write/,
    );
  });
});

test('doctor --data finds what records and files do not agree on', async () => {
  const { dataFolder, model } = await withModels();
  expect(await checkData(dataFolder)).toEqual({ models: 2, checkpoints: 4, problems: [] });
  rmSync(join(dataFolder, 'models', model.id, 'checkpoints/step-1'), { recursive: true });
  writeFileSync(join(dataFolder, 'models', model.id, 'logs/train.jsonl.gz'), '');
  mkdirSync(join(dataFolder, 'models', randomUUID()));
  const problems = (await checkData(dataFolder))?.problems.join('\n');
  expect(problems).toMatch(/folders in models\/ have no record/);
  expect(problems).toMatch(/step-1 has a record, but is not there/);
  expect(problems).toMatch(/train\.jsonl\.gz has 0 bytes, but its records say \d+/);
  expect(await checkData(await temporaryFolder())).toBeNull();
});

test('a backup by plain copy of a stopped service opens', async () => {
  const { dataFolder } = await withModels();
  const copy = join(await temporaryFolder(), 'copy');
  cpSync(dataFolder, copy, { recursive: true });
  const { call } = await open({ dataFolder: copy });
  expect((await call('GET', '/v1/preview/models')).body.data).toHaveLength(2);
  expect(execFileSync('find', [copy, '-name', 'quarantine'], { encoding: 'utf8' })).toBe('');
});
