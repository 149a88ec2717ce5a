import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { MartingaleError } from '../../contract/index.ts';
import { DatabaseSync } from '../../platform/sqlite.ts';
import { messageOf } from '../errors.ts';
import { DataFiles } from './files.ts';
import { logFile } from './log-files.ts';
import { checkObjects, storeSchema } from './schema.ts';
import { damagedDatabase, integer, type Row, text } from './sqlite-database.ts';

/** What a data folder has, and what is wrong with it, in words. */
export interface DataReport {
  models: number;
  checkpoints: number;
  problems: string[];
}

/**
 * Checks a data folder without changing it, also while a service runs on it: the database, and the files that its records
 * name. Null for a folder without data.
 */
export async function checkData(dataFolder: string): Promise<DataReport | null> {
  const files = await DataFiles.find(dataFolder).catch(() => null);
  const folders = await DataFiles.modelsIn(dataFolder);
  if (!files)
    return folders.length === 0
      ? null
      : {
          models: 0,
          checkpoints: 0,
          problems: ['there is no database beside the files in models/'],
        };
  const problems: string[] = [];
  try {
    const database = new DatabaseSync(files.databasePath, { timeout: 10_000 });
    try {
      return await checkRecords(database, files, folders);
    } finally {
      database.close();
    }
  } catch (error) {
    const damage = damagedDatabase(files.databasePath, error);
    if (!damage && !MartingaleError.isInstance(error)) throw error;
    problems.push(messageOf(damage ?? error));
    return { models: 0, checkpoints: 0, problems };
  }
}

async function checkRecords(
  database: DatabaseSync,
  files: DataFiles,
  folders: readonly string[],
): Promise<DataReport> {
  const all = (sql: string) => database.prepare(sql).all() as Row[];
  checkObjects(database, storeSchema);
  const problems = all('PRAGMA integrity_check(20)')
    .map((row) => text(row, 'integrity_check'))
    .filter((found) => found !== 'ok')
    .map((found) => `the database is damaged: ${found}`);
  const models = new Set(all('SELECT id FROM models').map((row) => text(row, 'id')));
  const deleted = new Set(all('SELECT id FROM deleted_models').map((row) => text(row, 'id')));
  const others = folders.filter((id) => !models.has(id) && !deleted.has(id));
  if (others.length > 0)
    problems.push(
      models.size === 0
        ? 'the database has no models, but there are files in models/'
        : `folders in models/ have no record; the next start moves them to the quarantine: ${others.slice(0, 5).join(', ')}${others.length > 5 ? `, and ${others.length - 5} more` : ''}`,
    );
  const checkpoints = all('SELECT folder FROM checkpoints');
  for (const row of checkpoints)
    if (row.folder !== null) {
      const folder = text(row, 'folder');
      if (!(await isFolder(files.checkpointPath(folder))))
        problems.push(`${folder} has a record, but is not there`);
    }
  for (const row of all(
    'SELECT model_id, split, max("offset" + bytes) AS bytes FROM logs GROUP BY model_id, split',
  )) {
    const path = logFile(join('models', text(row, 'model_id'), 'logs'), text(row, 'split'));
    const size = await sizeOf(files.absolute(path));
    if (size < integer(row, 'bytes'))
      problems.push(`${path} has ${size} bytes, but its records say ${row.bytes}`);
  }
  for (const row of all('SELECT sha256, bytes FROM uploads')) {
    const path = join('uploads', `${text(row, 'sha256')}.jsonl`);
    if ((await sizeOf(files.absolute(path))) !== integer(row, 'bytes'))
      problems.push(`${path} is not there, or has another size`);
  }
  for (const row of all('SELECT model_id, id, bytes FROM groups')) {
    const path = join('models', text(row, 'model_id'), 'groups', text(row, 'id'));
    if ((await sizeOf(files.absolute(path))) !== integer(row, 'bytes'))
      problems.push(`${path} is not there, or has another size`);
  }
  return { models: models.size, checkpoints: checkpoints.length, problems };
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  );
