import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, rename, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createGunzip } from 'node:zlib';
import { z } from 'zod';
import { largestOf } from '../../util/extremes.ts';
import { isObject } from '../../util/json.ts';
import { byteLines } from '../../util/json-lines.ts';
import { DataFiles } from './files.ts';
import { logFile } from './log-files.ts';
import { entriesOf, modelFile, own } from './own-entries.ts';
import { timedName } from './quarantine.ts';
import { SqliteDatabase } from './sqlite-database.ts';
import { sqliteModels } from './sqlite-models.ts';
import { insertCheckpoint } from './sqlite-rows.ts';
import type { CheckpointRecord, ModelRecord } from './store.ts';

/** The records that were made again from the files of a data folder. */
export interface Rebuilt {
  models: number;
  checkpoints: number;
  /** Logs of a split that have a record again. */
  logs: number;
  /** Where the old database is now; null if there was none. */
  oldDatabase: string | null;
  /** Sentences about the facts that the files do not tell. */
  lost: string[];
}

/**
 * Makes the records of a data folder anew from its files: models by the record beside their weights, checkpoints with
 * new ids and without metrics, logs. The old database is kept under another name. What stays without a record goes to the
 * quarantine at the next start.
 *
 * @throws ServiceError `data_folder_in_use`
 */
export async function rebuildRecords(dataFolder: string): Promise<Rebuilt> {
  const files = await DataFiles.open(dataFolder);
  const path = files.databasePath;
  // Refused while a service runs.
  SqliteDatabase.check(path);
  const oldDatabase = await moveAway(path);
  const database = new SqliteDatabase(path);
  let groups = 0;
  const rebuilt: Rebuilt = { models: 0, checkpoints: 0, logs: 0, oldDatabase, lost: [] };
  try {
    for (const [id, folders] of await files.modelFolders()) {
      groups += (await entriesOf(files.absolute(join('models', id, 'groups')), own.groups)).own.length;
      const model = await readModel(files, id);
      if (model === null) {
        rebuilt.lost.push(`models/${id} has no readable ${modelFile}: its name is unknown`);
        continue;
      }
      const checkpoints = await checkpointsIn(files, model, folders);
      const last = largestOf(checkpoints.map(({ step }) => step));
      const [first, ...others] = checkpoints;
      if (!first || !(await sqliteModels(database).insertModel({ ...model, lastStep: last }, first))) {
        rebuilt.lost.push(
          `models/${id}: another model has its name, ${model.entity}/${model.project}/${model.name}`,
        );
        continue;
      }
      for (const checkpoint of others) insertCheckpoint(database, checkpoint);
      rebuilt.models += 1;
      rebuilt.checkpoints += checkpoints.length;
      rebuilt.logs += await rebuildLogs(database, files, { id, lost: rebuilt.lost });
    }
  } finally {
    database.close();
  }
  const uploads = (await entriesOf(files.absolute('uploads'), own.uploads)).own.length;
  const jobs = (await files.payloads()).length;
  if (uploads > 0)
    rebuilt.lost.push(`${uploads} uploads: their owners are unknown, so they must be sent again`);
  if (groups > 0) rebuilt.lost.push(`${groups} stored groups, which must be sent again`);
  if (jobs > 0) rebuilt.lost.push(`${jobs} unfinished jobs, which must be requested again`);
  return rebuilt;
}

/** The database and its side files get another name. */
async function moveAway(path: string): Promise<string | null> {
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  );
  if (size === 0) return null;
  const old = `${path}.old-${timedName()}`;
  await rename(path, old);
  for (const side of ['-wal', '-shm']) await rename(path + side, old + side).catch(() => undefined);
  return old;
}

const modelSchema = z.object({
  id: z.string(),
  entity: z.string(),
  project: z.string(),
  name: z.string(),
  baseModel: z.string(),
  createdAt: z.string(),
  lastStep: z.number(),
  forkedFrom: z.object({ modelId: z.string(), step: z.number() }).nullable(),
}) satisfies z.ZodType<ModelRecord>;

async function readModel(files: DataFiles, id: string): Promise<ModelRecord | null> {
  try {
    const text = await readFile(files.absolute(join('models', id, modelFile)), 'utf8');
    const model = modelSchema.parse(JSON.parse(text));
    return model.id === id ? model : null;
  } catch {
    return null;
  }
}

async function checkpointsIn(
  files: DataFiles,
  model: ModelRecord,
  folders: readonly string[],
): Promise<CheckpointRecord[]> {
  const found: CheckpointRecord[] = [];
  for (const folder of folders) {
    const step = Number(/step-(\d+)$/.exec(folder)?.[1] ?? Number.NaN);
    if (!Number.isSafeInteger(step)) continue;
    const { mtime } = await stat(files.absolute(folder));
    found.push({
      id: randomUUID(),
      modelId: model.id,
      step,
      folder,
      metrics: {},
      createdAt: mtime.toISOString(),
    });
  }
  // A model begins with its base model, unless it is a copy of trained weights.
  if (!found.some(({ step }) => step === 0))
    found.push({
      id: randomUUID(),
      modelId: model.id,
      step: 0,
      folder: null,
      metrics: {},
      createdAt: model.createdAt,
    });
  return found.sort((a, b) => a.step - b.step);
}

async function rebuildLogs(
  database: SqliteDatabase,
  files: DataFiles,
  { id, lost }: { id: string; lost: string[] },
): Promise<number> {
  const folder = join('models', id, 'logs');
  let logs = 0;
  for (const name of (await entriesOf(files.absolute(folder), own.logs)).own) {
    const path = files.absolute(join(folder, name));
    const split = splitOf(name);
    const counts = split === null ? null : await countGroups(path);
    if (split === null || counts === null) {
      lost.push(
        `${join(folder, name)}: ${split === null ? 'the name of its split is unknown' : 'it is cut off'}`,
      );
      continue;
    }
    const { size } = await stat(path);
    const createdAt = new Date().toISOString();
    const row = {
      id: randomUUID(),
      model_id: id,
      split,
      offset: 0,
      bytes: size,
      ...counts,
      created_at: createdAt,
    };
    database.insert('logs', row);
    logs += 1;
  }
  return logs;
}

/** Null for a hash of a long name. */
function splitOf(name: string): string | null {
  try {
    const split = decodeURIComponent(name.replace(/\.jsonl\.gz$/, ''));
    return basename(logFile('.', split)) === name ? split : null;
  } catch {
    return null;
  }
}

/** Null for a file that cannot be read to its end. */
async function countGroups(path: string): Promise<{ groups: number; trajectories: number } | null> {
  const counts = { groups: 0, trajectories: 0 };
  try {
    for await (const { bytes } of byteLines(createReadStream(path).pipe(createGunzip()))) {
      const group: unknown = JSON.parse(bytes.toString());
      counts.groups += 1;
      if (isObject(group) && Array.isArray(group.trajectories))
        counts.trajectories += group.trajectories.length;
    }
    return counts;
  } catch {
    return null;
  }
}
