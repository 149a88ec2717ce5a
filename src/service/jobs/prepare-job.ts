import type { BaseModel, Engine, Weights } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';
import type { Constraints } from '../inference/constraint/constraints.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, ModelRecord, Store } from '../store/store.ts';
import type { PreparedJob } from './prepared-job.ts';
import { prepareRlJob } from './rl-job.ts';
import { prepareSftJob, resolvedSftConfigSchema } from './sft-job.ts';

export interface PrepareDependencies {
  engine: Engine;
  store: Store;
  files: DataFiles;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
}

/** From the record of a job, and the payload kept for it, to what the engine trains on. */
export function jobPreparation({ engine, store, files, constraints, tools }: PrepareDependencies) {
  return async (job: JobRecord, model: ModelRecord, signal: AbortSignal): Promise<PreparedJob> => {
    const base = baseModelOf(engine, model.baseModel);
    const dependencies = { engine, constraints, tools: tools(base.id), base };
    if (job.kind === 'sft')
      return prepareSftJob(
        files.uploadLines(job.uploadSha256 ?? ''),
        resolvedSftConfigSchema.parse(job.resolvedConfig),
        dependencies,
        signal,
      );
    const reference = (step: number | null) => findReference({ store, files }, model, step);
    return prepareRlJob(payloadOf(files, job.id), job.resolvedConfig, { ...dependencies, reference }, signal);
  };
}

async function* payloadOf(files: DataFiles, jobId: string): AsyncGenerator<Buffer> {
  try {
    yield* files.readPayload(jobId);
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ENOENT')) throw cause;
    throw new ServiceError(
      422,
      'payload_missing',
      `The trajectories of this job are not in the data folder any more (jobs/${jobId}.jsonl.gz); send the job again.`,
      { cause },
    );
  }
}

/** The weights of a model's step, which was there when the job was accepted; of null, its base model's. */
async function findReference(
  { store, files }: Pick<PrepareDependencies, 'store' | 'files'>,
  { id, baseModel }: ModelRecord,
  step: number | null,
): Promise<Weights> {
  if (step === null) return { baseModel, folder: null };
  const checkpoint = await store.checkpoint(id, step);
  if (!checkpoint)
    throw new ServiceError(
      422,
      'checkpoint_not_found',
      `kl_penalty_reference_step: the model has no checkpoint of step ${step} any more; it was deleted while the job waited.`,
    );
  return { baseModel, folder: checkpoint.folder === null ? null : files.absolute(checkpoint.folder) };
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
