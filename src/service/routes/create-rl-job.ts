import { z } from 'zod';
import {
  configFieldAliases,
  createTrainingJobRequestSchema,
  list,
  type ParsedRlConfig,
  refusedConfigFields,
  trainingLimits,
} from '../../contract/index.ts';
import { type ResolvedRlConfig, resolveRlConfig } from '../../learning/index.ts';
import { isObject } from '../../util/json.ts';
import type { ReceivedBody } from '../bodies/bodies.ts';
import { groupsField, readGroupedBody } from '../bodies/grouped-body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, unsupportedField } from '../errors.ts';
import { packGroups } from '../jobs/pack-groups.ts';
import { baseModelOf, stepBefore } from '../jobs/prepare-job.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import { isUnset, renameAliases, validateBody } from '../validation.ts';
import { findModel } from './models.ts';
import { acceptJob, type JobOrigin, newJob, reserveJob } from './new-job.ts';

/** The request without the elements of its groups, which are validated one by one. */
const rlRequestSchema = createTrainingJobRequestSchema.extend({
  [groupsField]: list(z.unknown(), trainingLimits.groups).min(1),
});
const rlFields = new Set(Object.keys(rlRequestSchema.shape));

/** Creates a job of reinforcement learning. */
export async function createRlJob(
  service: ServiceContext,
  received: ReceivedBody,
  origin: JobOrigin,
): Promise<JobRecord> {
  const { files, constraints, engine } = service;
  const body = await readGroupedBody(received.source, rlFields);
  const request = validateBody(rlRequestSchema, readRlBody(body.fields));
  // Errors in the groups are reported before a missing model.
  const model = await findModel(service, origin.access, request.model_id).catch((error: unknown) => ({
    error,
  }));
  const base = 'error' in model ? null : baseModelOf(engine, model.baseModel);
  const slot = 'error' in model ? null : await reserveJob(service, model, origin);
  try {
    const known = constraints.knownTo(origin.access.entity);
    const surroundings = base && { engine, constraints: known, base };
    const packed = await packGroups(body, { files, surroundings });
    try {
      if ('error' in model) throw model.error;
      if (packed.complaint !== null) throw packed.complaint;
      const config = await resolveConfig(service, model, request.experimental_config);
      const job = {
        ...newJob(origin, model),
        kind: 'rl',
        resolvedConfig: config,
        uploadSha256: null,
      } as const;
      return await acceptJob(service, job, packed.file);
    } finally {
      await packed.file.discard();
    }
  } finally {
    slot?.release();
  }
}

async function resolveConfig(
  { engine, store }: ServiceContext,
  model: ModelRecord,
  requested: ParsedRlConfig | undefined,
): Promise<ResolvedRlConfig> {
  const base = baseModelOf(engine, model.baseModel);
  const { config } = resolveRlConfig(requested, { learningRate: base.defaults.rlLearningRate });
  const { kl_penalty_reference_step: reference, kl_penalty_step_lag: lag } = config;
  if (reference !== null && (await store.checkpoint(model.id, reference)) === undefined)
    throw invalidField(
      ['experimental_config', 'kl_penalty_reference_step'],
      `the model has no checkpoint of step ${reference}. GET /v1/preview/models/${model.id}/checkpoints lists its checkpoints`,
      reference,
    );
  if (lag !== null) await checkLag(store, model, lag);
  return config;
}

/** Refuses a lag that leads to a missing checkpoint, if the job's start is already known. */
async function checkLag(store: ServiceContext['store'], { id }: ModelRecord, lag: number): Promise<void> {
  if ((await store.unfinishedJobsOf(id)).length > 0) return;
  const start = (await store.newestCheckpoint(id))?.step ?? 0;
  const step = stepBefore(start, lag);
  if ((await store.checkpoint(id, step)) !== undefined) return;
  throw invalidField(
    ['experimental_config', 'kl_penalty_step_lag'],
    `leads to step ${step}, ${lag} before step ${start}, which has no checkpoint. GET /v1/preview/models/${id}/checkpoints lists the model's checkpoints`,
    lag,
  );
}

function readRlBody(body: unknown): unknown {
  if (!isObject(body) || !isObject(body.experimental_config)) return body;
  const config = {
    ...renameAliases(body.experimental_config, configFieldAliases, ['experimental_config']),
  };
  for (const name of refusedConfigFields) {
    if (!isUnset(config[name])) throw unsupportedField(['experimental_config', name], config[name]);
    delete config[name];
  }
  return { ...body, experimental_config: config };
}
