import { z } from 'zod';
import {
  configFieldAliases,
  createSftTrainingJobRequestSchema,
  createTrainingJobRequestSchema,
  list,
  optional,
  type ParsedRlConfig,
  refusedConfigFields,
  trainingLimits,
} from '../../contract/index.ts';
import { type ResolvedRlConfig, resolveRlConfig } from '../../learning/index.ts';
import { isObject } from '../../util/json.ts';
import type { Access } from '../access.ts';
import type { ReceivedBody } from '../bodies/bodies.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound, unsupportedField } from '../errors.ts';
import { type PackedBody, packBody } from '../jobs/pack-body.ts';
import { baseModelOf, stepBefore } from '../jobs/prepare-job.ts';
import { groupsField } from '../jobs/read-groups.ts';
import type { ResolvedSftConfig } from '../jobs/sft-job.ts';
import { pinTeacher } from '../jobs/teacher.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import { findTrainingData } from '../training-data/find.ts';
import { isUnset, renameAliases, validateBody } from '../validation.ts';
import { findGroups, requireGroups } from './groups.ts';
import { findModel } from './models.ts';

/** The job's future id, the trace span of its request, and the access of the request's key. */
export type JobOrigin = Pick<JobRecord, 'id' | 'traceparent'> & { access: Access };

/** Reserves a slot for a job until it is stored or refused. @throws BusyError */
const reserveJob = ({ admission, store }: ServiceContext, { id }: ModelRecord, { access }: JobOrigin) =>
  admission.job(store, { modelId: id, tenant: access.tenant });

type JobParts = Pick<JobRecord, 'kind' | 'resolvedConfig'> &
  Partial<Pick<JobRecord, 'uploadSha256' | 'groupIds'>> & {
    origin: JobOrigin;
    model: ModelRecord;
    /** The groups of a job that has them in its request. */
    payload?: PackedBody;
  };

/**
 * Stores the payload, then the job, then announces it. If the job cannot be stored, its payload is
 * removed.
 */
async function acceptJob(
  { store, queue, files, recentPayloads }: ServiceContext,
  { origin: { id, traceparent, access }, model, payload, ...parts }: JobParts,
): Promise<JobRecord> {
  const job: JobRecord = {
    uploadSha256: null,
    groupIds: null,
    ...parts,
    id,
    traceparent,
    tenant: access.tenant,
    modelId: model.id,
    status: 'queued',
    createdAt: new Date().toISOString(),
    startedAt: null,
    endedAt: null,
    errorMessage: null,
    step: null,
    untrained: null,
  };
  try {
    if (payload) await files.keepPayload(id, payload.content);
    if (!(await store.insertJob(job))) {
      // The model or a group may have been deleted meanwhile.
      if (await store.model(model.id)) await findGroups({ store }, model, job.groupIds ?? []);
      throw notFound('model', model.id);
    }
  } catch (error) {
    // If this lookup or removal fails too, the next start removes the payload.
    const stored = await store.job(id).catch(() => job);
    if (payload && !stored) await files.removePayload(id).catch(() => {});
    throw error;
  }
  if (payload?.parts) recentPayloads.keep(id, payload.parts, payload.bytes);
  queue.wake();
  return job;
}

/** The request without the elements of its groups, which are validated one by one. */
const rlRequestSchema = createTrainingJobRequestSchema.extend({
  [groupsField]: optional(list(z.unknown(), trainingLimits.groups).min(1)),
});
type RlRequest = z.output<typeof rlRequestSchema>;
const rlFields = new Set(Object.keys(rlRequestSchema.shape));

/** Creates a job of reinforcement learning. */
export async function createRlJob(
  service: ServiceContext,
  received: ReceivedBody,
  origin: JobOrigin,
): Promise<JobRecord> {
  const { constraints, engine } = service;
  const { tenant: caller, entity } = origin.access;
  let found: { request: RlRequest; model: ModelRecord | { error: unknown } } | undefined;
  let slot: { release(): void } | undefined;
  try {
    const options = { form: 'job', known: rlFields, caller: { tenant: caller } } as const;
    const payload = await packBody(received, options, async (fields) => {
      const request = validateBody(rlRequestSchema, readRlBody(fields));
      requireGroups(request);
      // Errors in the groups are reported before a missing model.
      const model = await findModel(service, origin.access, request.model_id).catch((error: unknown) => ({
        error,
      }));
      found = { request, model };
      if ('error' in model || request.groups) return null;
      slot = await reserveJob(service, model, origin);
      const base = baseModelOf(engine, model.baseModel);
      return { engine, constraints: constraints.knownTo(entity), base };
    });
    if (!found) throw new Error('the fields of the job were not read');
    const { request, model } = found;
    if ('error' in model) throw model.error;
    if (!payload) return await createJobOfStored(service, request, model, origin);
    const resolvedConfig = await resolveConfig(
      service,
      { model, access: origin.access },
      request.experimental_config,
    );
    return await acceptJob(service, { origin, model, kind: 'rl', resolvedConfig, payload });
  } finally {
    slot?.release();
  }
}

/** A job on groups that were sent before, and checked then. */
async function createJobOfStored(
  service: ServiceContext,
  { groups: groupIds = [], experimental_config }: RlRequest,
  model: ModelRecord,
  origin: JobOrigin,
): Promise<JobRecord> {
  await findGroups(service, model, groupIds);
  const slot = await reserveJob(service, model, origin);
  try {
    const resolvedConfig = await resolveConfig(
      service,
      { model, access: origin.access },
      experimental_config,
    );
    return await acceptJob(service, { origin, model, kind: 'rl', resolvedConfig, groupIds });
  } finally {
    slot.release();
  }
}

async function resolveConfig(
  service: ServiceContext,
  { model, access }: { model: ModelRecord; access: Access },
  requested: ParsedRlConfig | undefined,
): Promise<ResolvedRlConfig> {
  const { engine, store } = service;
  const base = baseModelOf(engine, model.baseModel);
  const { config } = resolveRlConfig(requested, { learningRate: base.defaults.rlLearningRate });
  if (base.isRemote && config.entropy_coefficient !== 0)
    throw unsupportedField(
      ['experimental_config', 'entropy_coefficient'],
      config.entropy_coefficient,
      `the training server of ${base.id} does not tell the entropy; leave it out`,
    );
  const { kl_penalty_reference_step: reference, kl_penalty_step_lag: lag } = config;
  const { kl_penalty_reference_model: teacher } = config;
  if (reference !== null && (await store.checkpoint(model.id, reference)) === undefined)
    throw invalidField(
      ['experimental_config', 'kl_penalty_reference_step'],
      `the model has no checkpoint of step ${reference}. GET /v1/preview/models/${model.id}/checkpoints lists its checkpoints`,
      reference,
    );
  if (lag !== null) await checkLag(store, model, lag);
  if (teacher === null) return config;
  return { ...config, kl_penalty_reference_model: await pinTeacher(service, teacher, { base, access }) };
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

/** Creates a job of supervised training. */
export async function createSftJob(
  service: ServiceContext,
  body: unknown,
  origin: JobOrigin,
): Promise<JobRecord> {
  const request = validateBody(createSftTrainingJobRequestSchema, body);
  for (const [name, value] of Object.entries(request.experimental_config ?? {}))
    if (value !== null) throw unsupportedField(['experimental_config', name], value);
  const model = await findModel(service, origin.access, request.model_id);
  const slot = await reserveJob(service, model, origin);
  try {
    return await acceptSftJob(service, request, model, origin);
  } finally {
    slot.release();
  }
}

async function acceptSftJob(
  service: ServiceContext,
  request: z.infer<typeof createSftTrainingJobRequestSchema>,
  model: ModelRecord,
  origin: JobOrigin,
): Promise<JobRecord> {
  const { sftBatchSize, sftLearningRate } = baseModelOf(service.engine, model.baseModel).defaults;
  const requested = request.config?.batch_size ?? 'auto';
  const batchSize = requested === 'auto' ? sftBatchSize : requested;
  await checkTargetStep(service, model, request.config?.metric_logging?.target_training_step);
  const rates = request.config?.learning_rate ?? sftLearningRate;
  const { sha256, examples } = await findTrainingData(service, {
    address: request.training_data_url,
    access: origin.access,
    accept: (found) => checkRates(rates, found, batchSize),
  });
  const resolvedConfig: ResolvedSftConfig = {
    batch_size: batchSize,
    learning_rate: rates,
    assistant_turns: request.config?.assistant_turns ?? 'all',
    metric_logging: {
      enabled: request.config?.metric_logging?.enabled ?? true,
      target_training_step: request.config?.metric_logging?.target_training_step ?? null,
    },
    num_examples: examples,
    num_batches: Math.ceil(examples / batchSize),
  };
  return acceptJob(service, {
    origin,
    model,
    kind: 'sft',
    resolvedConfig,
    uploadSha256: sha256,
  });
}

/** The job creates the step after the newest one and after the steps of waiting jobs. */
async function checkTargetStep(
  { store }: ServiceContext,
  { id }: ModelRecord,
  target: number | undefined,
): Promise<void> {
  if (target === undefined) return;
  // Counted before reading the newest step: a job that ends in between counts twice rather than not at
  // all.
  const waiting = (await store.unfinishedJobsOf(id)).length;
  const first = ((await store.model(id))?.lastStep ?? 0) + 1;
  const last = first + waiting;
  if (target >= first && target <= last) return;
  const possible =
    first === last ? `${first}` : first + 1 === last ? `${first} or ${last}` : `${first} to ${last}`;
  throw invalidField(
    ['config', 'metric_logging', 'target_training_step'],
    `metrics are stored with the job's checkpoint, which will be step ${possible}. Send that step, or omit the field`,
    target,
  );
}

function checkRates(rates: number | number[], examples: number, batchSize: number): void {
  const batches = Math.ceil(examples / batchSize);
  if (typeof rates === 'number' || rates.length === batches) return;
  throw invalidField(
    ['config', 'learning_rate'],
    `has ${rates.length} values for ${batches} batches (${examples} examples in batches of ${batchSize}). Send one number, or one for each batch`,
    rates,
  );
}
