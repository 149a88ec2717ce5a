import type { BaseModel, Engine } from '../../engines/engine.ts';
import { parseJson } from '../body.ts';
import { ServiceError } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';
import type { Constraints } from '../inference/constraints.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import type { PreparedJob } from './prepared-job.ts';
import { prepareRlJob, rlPayloadSchema } from './rl-job.ts';
import { prepareSftJob, resolvedSftConfigSchema } from './sft-job.ts';

export interface PrepareDependencies {
  engine: Engine;
  files: DataFiles;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
}

/** From the record of a job, and the payload kept for it, to what the engine trains on. */
export function jobPreparation({ engine, files, constraints, tools }: PrepareDependencies) {
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
    const payload = rlPayloadSchema.parse(parseJson(await files.readPayload(job.id)));
    return prepareRlJob(payload.trajectory_groups, job.resolvedConfig, dependencies, signal);
  };
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
