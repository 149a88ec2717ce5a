import type { ServiceContext } from '../context.ts';
import { messageOf } from '../errors.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';

/**
 * Removes weights whose records are deleted. The request has succeeded by then; files that cannot be
 * removed now are removed at the next start, like everything without a record.
 */
export async function removeWeights(
  service: ServiceContext,
  model: ModelRecord,
  checkpoints: readonly CheckpointRecord[],
): Promise<void> {
  const { engine, files } = service;
  for (const { folder } of checkpoints) {
    if (folder === null) continue;
    await orKeep(service, folder, async () => {
      await engine.drop({ baseModel: model.baseModel, folder: files.absolute(folder) });
      await files.removeCheckpoint(folder);
    });
  }
}

/** Removes everything a deleted model leaves, records and files. */
export async function removeModelRest(
  service: ServiceContext,
  model: ModelRecord,
  checkpoints: readonly CheckpointRecord[],
): Promise<void> {
  await removeWeights(service, model, checkpoints);
  const { files, store } = service;
  await orKeep(service, model.id, () => files.alone(model.id, () => files.removeModel(model.id)));
  await orKeep(service, model.id, () => store.clearDeletedModels());
}

async function orKeep({ log }: ServiceContext, folder: string, remove: () => Promise<void>): Promise<void> {
  try {
    await remove();
  } catch (error) {
    log({ level: 'warn', event: 'files_kept', folder, error: messageOf(error) });
  }
}
