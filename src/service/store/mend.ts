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
