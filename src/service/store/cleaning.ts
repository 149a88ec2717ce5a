import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ServiceContext } from '../context.ts';
import { messageOf } from '../errors.ts';
import type { DataFiles } from './files.ts';
import type { Store } from './store.ts';

/**
 * After a crash: jobs that ran are queued again, deletions are completed, and what has no record is removed, since
 * only a record makes a checkpoint, a model, a payload, an upload or a part of a log. A crash in here leaves the rest
 * to the next start.
 */
export async function mend(store: Store, files: DataFiles): Promise<void> {
  await store.clearDeletedModels();
  await store.requeueLostJobs();
  await files.removeIncoming();
  await files.removeUploadsBut(await store.uploadHashes());
  await files.removePayloadsBut(await store.unfinishedJobIds());
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

/** How long training data is kept after its last use, and an idempotency key of no model after its first; milliseconds. */
export const keptMs = 30 * 24 * 3_600_000;

export interface Unused {
  store: Store;
  files: DataFiles;
  /** The time, in milliseconds since 1970. Default: the clock's. */
  now?: number;
}

/** Removes what has not been used for so long, a little in each turn of the event loop. */
export async function removeUnused({ store, files, now = Date.now() }: Unused): Promise<void> {
  const before = now - keptMs;
  while (await store.forgetIdempotencyKeys(before)) await nextTurn();
  for (let hashes = await store.unusedUploads(before); hashes.length > 0; ) {
    for (const sha256 of hashes)
      await files.alone(sha256, async () => {
        if (await store.removeUnusedUpload(sha256, before)) await files.removeUpload(sha256);
      });
    hashes = await store.unusedUploads(before);
  }
}

const everyMs = 3_600_000;

/** Removes what is no longer used, every hour until the service closes. */
export function keepClean(service: Pick<ServiceContext, 'store' | 'files' | 'log' | 'closing'>): void {
  const { closing, log } = service;
  const started = Date.now() - performance.now();
  const clean = async () => {
    try {
      // Whatever way the clock jumps, nothing is older for it.
      await removeUnused({ ...service, now: Math.min(Date.now(), started + performance.now()) });
    } catch (error) {
      // The rest goes an hour later, or at the next start.
      if (!closing.aborted) log({ level: 'warn', event: 'unused_kept', error: messageOf(error) });
    }
  };
  const timer = setInterval(clean, everyMs).unref();
  closing.addEventListener('abort', () => clearInterval(timer), { once: true });
}
