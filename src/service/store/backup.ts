import { link, mkdir, open, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { DatabaseSync } from '../../platform/sqlite.ts';
import { isFree, privateFile, privateFolder, syncFolder, writeNewFolder } from '../../util/durable-files.ts';
import { hasCode } from '../../util/error.ts';
import { ServiceError } from '../errors.ts';
import { copyDurably, copyFolder, copyPart } from './durable-files.ts';
import { DataFiles } from './files.ts';
import { logFile } from './log-files.ts';
import { entriesOf, modelFile, own } from './own-entries.ts';
import { integer, type Row, text } from './sqlite-database.ts';
import { unfinished } from './sqlite-rows.ts';

/** What a backup has. */
export interface Backup {
  folder: string;
  models: number;
  checkpoints: number;
  /** Bytes of all logs. */
  logBytes: number;
  uploads: number;
  unfinishedJobs: number;
}

/**
 * Copies a data folder, also while a service runs on it: everything that was acknowledged before the call is in the copy,
 * which a service can open. What is deleted meanwhile may be missing, with its records. The folder appears completely or
 * not at all. The quarantine, and what engines have finished of running jobs, are left out.
 *
 * @param folder Must not exist yet, or be empty, and not be in the data folder.
 * @param options.signal Ends the copy after the file that is being copied, with its reason.
 * @throws ServiceError `data_folder_not_found` or `bad_option`; errors of the file system, such as a full disk.
 */
export async function backUp(
  dataFolder: string,
  folder: string,
  { signal }: { signal?: AbortSignal } = {},
): Promise<Backup> {
  signal?.throwIfAborted();
  const files = await DataFiles.find(dataFolder);
  if (!relative(resolve(dataFolder), resolve(folder)).startsWith('..'))
    throw new ServiceError(400, 'bad_option', `${folder} is in the data folder: a backup belongs elsewhere.`);
  if (!(await isFree(folder)))
    throw new ServiceError(400, 'bad_option', `${folder} exists already: name a new or an empty folder.`);
  let found: Omit<Backup, 'folder'> | undefined;
  await writeNewFolder(folder, async (copy) => {
    for (const name of ['models', 'jobs', 'uploads']) await mkdir(join(copy, name), { mode: privateFolder });
    // A job may end meanwhile and take its payload along, so these come first, without a copy of their bytes.
    const jobs = await keepPayloads(files, copy);
    snapshot(files.databasePath, join(copy, 'martingale.sqlite'));
    if (await exists(files.absolute('keys.sqlite')))
      snapshot(files.absolute('keys.sqlite'), join(copy, 'keys.sqlite'));
    const live = new DatabaseSync(files.databasePath, { timeout: 10_000 });
    const records = new DatabaseSync(join(copy, 'martingale.sqlite'));
    try {
      records.exec('PRAGMA foreign_keys = ON');
      found = await copyFiles({ files, copy, live, records, jobs, signal });
    } finally {
      records.close();
      live.close();
    }
    await syncFile(join(copy, 'martingale.sqlite'));
    for (const name of ['models', 'jobs', 'uploads']) await syncFolder(join(copy, name));
  });
  if (!found) throw new TypeError('the backup was not written');
  return { folder, ...found };
}

interface Copying {
  files: DataFiles;
  /** The folder that is written. */
  copy: string;
  /** The database of the service, and the copy of it. */
  live: DatabaseSync;
  records: DatabaseSync;
  /** Names of the payloads that are in the copy. */
  jobs: Set<string>;
  signal: AbortSignal | undefined;
}

async function copyFiles({
  files,
  copy,
  live,
  records,
  jobs,
  signal,
}: Copying): Promise<Omit<Backup, 'folder'>> {
  const all = (sql: string) => records.prepare(sql).all() as Row[];
  /** Whether the file was there. */
  const ifThere = (work: () => Promise<unknown>) => {
    signal?.throwIfAborted();
    return wasThere(work);
  };
  for (const row of all('SELECT id FROM models')) {
    const id = text(row, 'id');
    await mkdir(join(copy, 'models', id, 'checkpoints'), { recursive: true, mode: privateFolder });
    await ifThere(() =>
      copyDurably(files.absolute(join('models', id, modelFile)), join(copy, 'models', id, modelFile)),
    );
  }
  const isLive = live.prepare('SELECT 1 FROM checkpoints WHERE id = ?');
  let checkpoints = 0;
  for (const row of all('SELECT id, folder FROM checkpoints')) {
    const folder = row.folder === null ? null : text(row, 'folder');
    const isWhole =
      folder === null || (await ifThere(() => copyFolder(files.checkpointPath(folder), join(copy, folder))));
    // A record is deleted before its files: while it is there, the copy is complete.
    if (isWhole && (folder === null || isLive.get(text(row, 'id')) !== undefined)) checkpoints += 1;
    else records.prepare('DELETE FROM checkpoints WHERE id = ?').run(text(row, 'id'));
  }
  records.exec('DELETE FROM models WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE model_id = models.id)');
  let logBytes = 0;
  for (const row of all(
    'SELECT model_id, split, max("offset" + bytes) AS bytes FROM logs GROUP BY model_id, split',
  )) {
    const path = logFile(join('models', text(row, 'model_id'), 'logs'), text(row, 'split'));
    const bytes = integer(row, 'bytes');
    const isCopied = await ifThere(() => copyBeginning(files.absolute(path), join(copy, path), bytes));
    if (isCopied) logBytes += bytes;
    else
      records
        .prepare('DELETE FROM logs WHERE model_id = ? AND split = ?')
        .run(text(row, 'model_id'), text(row, 'split'));
  }
  for (const row of all('SELECT id, model_id FROM groups')) {
    const folder = join('models', text(row, 'model_id'), 'groups');
    const path = join(folder, text(row, 'id'));
    await mkdir(join(copy, folder), { recursive: true, mode: privateFolder });
    const isCopied = await ifThere(() => copyDurably(files.absolute(path), join(copy, path)));
    if (!isCopied) records.prepare('DELETE FROM groups WHERE id = ?').run(text(row, 'id'));
  }
  let uploads = 0;
  for (const row of all('SELECT sha256 FROM uploads')) {
    const path = join('uploads', `${text(row, 'sha256')}.jsonl`);
    if (await ifThere(() => copyDurably(files.absolute(path), join(copy, path)))) uploads += 1;
    else records.prepare('DELETE FROM uploads WHERE sha256 = ?').run(text(row, 'sha256'));
  }
  const waiting = all(`SELECT id FROM jobs WHERE ${unfinished}`).map((row) => `${text(row, 'id')}.jsonl.gz`);
  for (const name of waiting)
    if (!jobs.has(name))
      await ifThere(() => copyDurably(files.absolute(join('jobs', name)), join(copy, 'jobs', name)));
  const models = all('SELECT id FROM models').length;
  return { models, checkpoints, logBytes, uploads, unfinishedJobs: waiting.length };
}

/** Links each payload instead of copying it, where the file system has hard links: payloads never change. */
async function keepPayloads(files: DataFiles, copy: string): Promise<Set<string>> {
  const kept = new Set<string>();
  for (const name of (await entriesOf(files.absolute('jobs'), own.jobs)).own) {
    const [from, to] = [files.absolute(join('jobs', name)), join(copy, 'jobs', name)];
    const isKept = await wasThere(() =>
      link(from, to).catch((error: unknown) => {
        if (hasCode(error, 'ENOENT')) throw error;
        return copyDurably(from, to);
      }),
    );
    if (isKept) kept.add(name);
  }
  return kept;
}

/** A copy of a database as it is at one moment, without its side files. */
function snapshot(from: string, to: string): void {
  const database = new DatabaseSync(from, { timeout: 10_000 });
  try {
    database.prepare('VACUUM INTO ?').run(to);
  } finally {
    database.close();
  }
}

async function copyBeginning(from: string, to: string, bytes: number): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: privateFolder });
  await copyPart(from, to, { start: 0, end: bytes });
  await syncFolder(dirname(to));
}

async function syncFile(path: string): Promise<void> {
  await using file = await open(path, 'r+');
  await file.chmod(privateFile);
  await file.sync();
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Whether the file was there. */
async function wasThere(copy: () => Promise<unknown>): Promise<boolean> {
  try {
    await copy();
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}
