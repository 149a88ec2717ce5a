import { type ModelHandle, requireModelId } from '../model/index.ts';

export interface PruneCheckpointsOptions {
  model: ModelHandle;
  /** Steps of the checkpoints that the run has made and not yet deleted, oldest first. */
  made: readonly number[];
  /** How many of the newest stay. */
  keep: number | 'all';
  signal?: AbortSignal;
}

/** Deletes the oldest of the run's own checkpoints; returns the steps that are left. */
export async function pruneCheckpoints({
  model,
  made,
  keep,
  signal,
}: PruneCheckpointsOptions): Promise<number[]> {
  if (keep === 'all' || made.length <= keep) return [...made];
  const steps = made.slice(0, made.length - keep);
  await model.client.models.checkpoints.delete(requireModelId(model), { steps }, { signal });
  return made.slice(-keep);
}
