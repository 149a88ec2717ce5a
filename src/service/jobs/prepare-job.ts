import type { BaseModel, Engine, Weights } from '../../engines/engine.ts';
import { hasCode } from '../../util/error.ts';
import { ServiceError } from '../errors.ts';
import type { Constraints } from '../inference/constraints.ts';
import type { BaseModelTools } from '../inference/resolve-model.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, ModelRecord, Store } from '../store/store.ts';
import { type KlReference, prepareRlJob } from './rl-job.ts';
import { prepareSftJob, type ResolvedSftConfig, resolvedSftConfigSchema } from './sft-job.ts';
import type { PreparedJob } from './train-job.ts';

export interface PrepareDependencies {
  engine: Engine;
  store: Store;
  files: DataFiles;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
}

/** Returns the function that prepares a job's training from its record and its payload. */
export function jobPreparation({ engine, store, files, constraints, tools }: PrepareDependencies) {
  return async (job: JobRecord, model: ModelRecord, signal: AbortSignal): Promise<PreparedJob> => {
    const base = baseModelOf(engine, model.baseModel);
    const dependencies = { engine, constraints, tools: tools(base.id), base };
    if (job.kind === 'sft') {
      const config = resolvedSftConfigSchema.parse(job.resolvedConfig);
      checkTargetStep(config, model.lastStep + 1);
      return prepareSftJob(files.uploadLines(job.uploadSha256 ?? ''), config, dependencies, signal);
    }
    const reference = (config: KlReference) => findKlReference({ store, files }, model, config);
    return prepareRlJob(payloadOf(files, job.id), job.resolvedConfig, { ...dependencies, reference }, signal);
  };
}

async function* payloadOf(files: DataFiles, jobId: string): AsyncGenerator<Buffer> {
  try {
    yield* files.readPayload(jobId);
  } catch (cause) {
    if (!hasCode(cause, 'ENOENT')) throw cause;
    throw new ServiceError(
      422,
      'payload_missing',
      `The trajectories of this job are not in the data folder any more (jobs/${jobId}.jsonl.gz); send the job again.`,
      { cause },
    );
  }
}

function checkTargetStep(
  { metric_logging: { target_training_step: target } }: ResolvedSftConfig,
  step: number,
) {
  if (target === null || target === step) return;
  throw new ServiceError(
    422,
    'wrong_target_step',
    `metric_logging.target_training_step is ${target}, and the job makes the checkpoint of step ${step}, since ${step < target ? 'fewer' : 'more'} of the jobs before it in the queue made one. Send the job again with the step that is then next, or without a step.`,
  );
}

export function baseModelOf(engine: Engine, id: string): BaseModel {
  const base = engine.baseModels.find((model) => model.id === id);
  if (!base)
    throw new ServiceError(
      422,
      'unknown_base_model',
      `base_model: there is no base model ${JSON.stringify(id)}; there are ${engine.baseModels.map((model) => model.id).join(', ')}.`,
    );
  return base;
}

/** The step `lag` steps before another, at least 0. */
export const stepBefore = (step: number, lag: number): number => Math.max(0, step - lag);

/** The weights of the KL penalty's reference when a job starts: the base model's if its config names none. */
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
