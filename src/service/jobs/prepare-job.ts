import type { BaseModel, Engine } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';
import type { Constraints } from '../inference/constraints.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, ModelRecord, Store } from '../store/store.ts';
import { findKlReference } from './kl-reference.ts';
import type { PreparedJob } from './prepared-job.ts';
import { type KlReference, prepareRlJob } from './rl-job.ts';
import { prepareSftJob, type ResolvedSftConfig, resolvedSftConfigSchema } from './sft-job.ts';

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
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ENOENT')) throw cause;
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
