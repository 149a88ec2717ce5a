import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SqliteDatabase } from '../../../src/service/store/sqlite-database.ts';
import { temporaryFolder } from '../../support/files.ts';

/** A database that cannot grow until it is allowed to, as on a full disk. */
async function fullDatabase() {
  const database = new SqliteDatabase(join(await temporaryFolder(), 'test.sqlite'));
  onTestFinished(() => database.close());
  const pages = Number(database.one('PRAGMA page_count')?.page_count);
  const limit = (most: number) => database.one(`PRAGMA max_page_count = ${most}`);
  limit(pages);
  const put = (hash: string) =>
    database.run('INSERT INTO deleted_models (id) VALUES (?)', hash.padEnd(2 ** 16));
  return { database, put, free: () => limit(pages + 1000) };
}

const full = expect.objectContaining({ errcode: 13, message: expect.stringContaining('full') });

test('a transaction on a full disk fails with that reason and changes nothing, and the next one works', async () => {
  const { database, put, free } = await fullDatabase();
  const both = () =>
    database.transaction(() => {
      put('first');
      put('second');
    });
  expect(both).toThrow(full);
  expect(both).toThrow(full);
  expect(database.one('SELECT count(*) AS count FROM deleted_models')).toEqual({ count: 0 });
  free();
  both();
  expect(database.one('SELECT count(*) AS count FROM deleted_models')).toEqual({ count: 2 });
});

test('a transaction whose work throws changes nothing', async () => {
  const { database, put, free } = await fullDatabase();
  free();
  const broken = () =>
    database.transaction(() => {
      put('first');
      throw new RangeError('out of luck');
    });
  expect(broken).toThrow(new RangeError('out of luck'));
  expect(database.one('SELECT count(*) AS count FROM deleted_models')).toEqual({ count: 0 });
});
