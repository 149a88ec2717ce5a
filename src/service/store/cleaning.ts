import { setImmediate as nextTick } from 'node:timers/promises';
import { messageOf, ServiceError } from '../errors.ts';
import type { ServiceLog } from '../telemetry.ts';
import type { DataFiles } from './files.ts';
import type { Store } from './store.ts';

/**
 * Repairs the data folder after a crash: requeues running jobs, completes deletions, and moves files without a record to
 * the quarantine, since only a record makes a checkpoint, model, payload, group, upload or log entry exist. It may itself be
 * interrupted; the next start continues.
 * @throws ServiceError `records_missing` if there are models and no records at all.
 */
export async function repair(store: Store, files: DataFiles): Promise<void> {
  const folders = await files.modelFolders();
  const deleted = new Set(await store.deletedModelIds());
  const isEmpty = (await store.models({ limit: 1, order: 'asc' }, null)).items.length === 0;
  const models = [...folders.keys()].filter((id) => !deleted.has(id));
  if (isEmpty) await refuseModels(files, models);
  for (const id of deleted) await files.removeModel(id);
  await store.clearDeletedModels();
  await store.requeueLostJobs();
  await files.removeIncoming();
  await files.quarantineOtherUploads(await store.uploadHashes());
  await repairPayloads(store, files);
  for (const modelId of models) {
    if ((await store.model(modelId)) === undefined) {
      if (await files.hasFiles(modelId)) await files.quarantine.take(`models/${modelId}`);
      else await files.removeModel(modelId);
      continue;
    }
    const recorded = new Set((await store.allCheckpoints(modelId)).map(({ folder }) => folder));
    for (const folder of folders.get(modelId) ?? [])
      if (recorded.has(folder)) continue;
      // Not written to its end.
      else if (/\.\w+$/.test(folder)) await files.removeCheckpoint(folder);
      else await files.quarantine.take(folder);
    await files.quarantineOtherGroups(modelId, await store.groupIds(modelId));
    await files.cutLogs(modelId, await store.logEnds(modelId));
  }
}

async function repairPayloads(store: Store, files: DataFiles): Promise<void> {
  for (const { jobId, path } of await files.payloads()) {
    const job = await store.job(jobId);
    if (job === undefined) await files.quarantine.take(path);
    else if (job.endedAt !== null) await files.removePayload(jobId);
  }
  for (const jobId of await files.jobsWithScratch())
    if ((await store.job(jobId))?.endedAt !== null) await files.removeScratch(jobId);
}

/** For a database without models. @throws ServiceError `records_missing` */
export async function refuseModels(files: DataFiles, modelIds: Iterable<string>): Promise<void> {
  const models: string[] = [];
  for (const id of modelIds) if (await files.hasFiles(id)) models.push(id);
  if (models.length === 0) return;
  throw new ServiceError(
    500,
    'records_missing',
    `${files.databasePath} has no records, but there are files of ${models.length} model${models.length === 1 ? '' : 's'} beside it. Nothing was changed. Put the ` +
      'database back with its -wal file, from a backup if need be; or make records anew from the files with ' +
      '`martingale doctor --data <folder> --repair`; or move the folder `models` away to begin without them.',
  );
}

/** How long unused training data, and idempotency keys without a model, are kept, in milliseconds. */
export const keptMs = 30 * 24 * 3_600_000;

/** How long a group is kept after it was sent, if nothing names it, and after it was last named, in milliseconds. */
export const groupKeptMs = { unnamed: 24 * 3_600_000, named: 3_600_000 };

interface Unused {
  store: Store;
  files: DataFiles;
  /** Current time in milliseconds since 1970. Default `Date.now()`. */
  now?: number;
}

/** Removes data that has been unused for `keptMs`, and groups as `groupKeptMs` says, a little in each tick. */
export async function removeUnused({ store, files, now = Date.now() }: Unused): Promise<void> {
  const before = now - keptMs;
  while (await store.forgetIdempotencyKeys(before)) await nextTick();
  for (let hashes = await store.unusedUploads(before); hashes.length > 0; ) {
    for (const sha256 of hashes)
      await files.exclusively(sha256, async () => {
        if (await store.removeUnusedUpload(sha256, before)) await files.removeUpload(sha256);
      });
    hashes = await store.unusedUploads(before);
  }
  const groupsBefore = { unnamed: now - groupKeptMs.unnamed, named: now - groupKeptMs.named };
  for (let groups = await store.unusedGroups(groupsBefore); groups.length > 0; ) {
    for (const group of groups)
      await files.exclusively(group.modelId, async () => {
        if (await store.removeUnusedGroup(group.id, groupsBefore)) await files.removeGroup(group);
      });
    groups = await store.unusedGroups(groupsBefore);
  }
  await files.quarantine.removeOld(now);
}

const everyMs = 3_600_000;

interface Cleaned {
  store: Store;
  files: DataFiles;
  log: ServiceLog;
  /** Ends the cleaning. */
  closing: AbortSignal;
}

/** Removes unused data every hour until the service closes. */
export function keepClean(service: Cleaned): void {
  const { store, files, log, closing } = service;
  const started = Date.now() - performance.now();
  const clean = async () => {
    try {
      // The smaller of both clocks: if the clock jumps ahead, nothing becomes older.
      await removeUnused({ store, files, now: Math.min(Date.now(), started + performance.now()) });
    } catch (error) {
      // Retried in an hour, and at the next start.
      if (!closing.aborted) log({ level: 'warn', event: 'cleaning_failed', error: messageOf(error) });
    }
  };
  const timer = setInterval(clean, everyMs).unref();
  closing.addEventListener('abort', () => clearInterval(timer), { once: true });
}
