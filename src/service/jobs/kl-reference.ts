import type { Weights } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { ModelRecord, Store } from '../store/store.ts';
import type { KlReference } from './rl-job.ts';

/** The step that is so many before another; step 0 where there are not so many. */
export const stepBefore = (step: number, lag: number): number => Math.max(0, step - lag);

/** The reference's weights of a job that is about to run: the base model's where its config names none. */
export async function findKlReference(
  { store, files }: { store: Store; files: DataFiles },
  { id, baseModel }: ModelRecord,
  { kl_penalty_reference_step: named, kl_penalty_step_lag: lag }: KlReference,
): Promise<Weights> {
  if (named === null && lag === null) return { baseModel, folder: null };
  const start = (await store.newestCheckpoint(id))?.step ?? 0;
  const step = named ?? stepBefore(start, lag ?? 0);
  const checkpoint = await store.checkpoint(id, step);
  if (checkpoint)
    return { baseModel, folder: checkpoint.folder === null ? null : files.absolute(checkpoint.folder) };
  throw new ServiceError(
    422,
    'checkpoint_not_found',
    named === null
      ? `kl_penalty_step_lag: ${lag} steps before the checkpoint that the job starts from, of step ${start}, is step ${step}, and the model has no checkpoint of it any more; keep that one, or send another lag.`
      : `kl_penalty_reference_step: the model has no checkpoint of step ${step} any more; it was deleted while the job waited.`,
  );
}
