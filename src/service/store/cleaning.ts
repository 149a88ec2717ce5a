import { setImmediate as nextTick } from 'node:timers/promises';
import type { ServiceContext } from '../context.ts';
import { messageOf } from '../errors.ts';
import type { DataFiles } from './files.ts';
import type { Store } from './store.ts';

/**
 * Repairs the data folder after a crash: requeues running jobs, completes deletions, and removes files
 * without a record, since only a record makes a checkpoint, model, payload, upload or log entry exist. It
 * may itself be interrupted; the next start continues.
 */
export async function repair(store: Store, files: DataFiles): Promise<void> {
  await store.clearDeletedModels();
  await store.requeueLostJobs();
  await files.removeIncoming();
  await files.removeOtherUploads(await store.uploadHashes());
  await files.removeOtherPayloads(await store.unfinishedJobIds());
  for (const [modelId, folders] of await files.modelFolders()) {
    if ((await store.model(modelId)) === undefined) {
      await files.removeModel(modelId);
      continue;
    }
    const recorded = new Set((await store.allCheckpoints(modelId)).map(({ folder }) => folder));
    for (const folder of folders) if (!recorded.has(folder)) await files.removeCheckpoint(folder);
    await files.cutLogs(modelId, await store.logEnds(modelId));
  }
}

/** How long unused training data, and idempotency keys without a model, are kept, in milliseconds. */
export const keptMs = 30 * 24 * 3_600_000;

export interface Unused {
  store: Store;
  files: DataFiles;
  /** Current time in milliseconds since 1970. Default `Date.now()`. */
  now?: number;
}

/** Removes data that has been unused for `keptMs`, a little in each tick. */
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
}

const everyMs = 3_600_000;

/** Removes unused data every hour until the service closes. */
export function keepClean(service: Pick<ServiceContext, 'store' | 'files' | 'log' | 'closing'>): void {
  const { closing, log } = service;
  const started = Date.now() - performance.now();
  const clean = async () => {
    try {
      // The smaller of both clocks: if the clock jumps ahead, nothing becomes older.
      await removeUnused({ ...service, now: Math.min(Date.now(), started + performance.now()) });
    } catch (error) {
      // Retried in an hour, and at the next start.
      if (!closing.aborted) log({ level: 'warn', event: 'cleaning_failed', error: messageOf(error) });
    }
  };
  const timer = setInterval(clean, everyMs).unref();
  closing.addEventListener('abort', () => clearInterval(timer), { once: true });
}
