import type { Context, Hono } from 'hono';
import { z } from 'zod';
import {
  configFieldAliases,
  createSftTrainingJobRequestSchema,
  createTrainingJobRequestSchema,
  list,
  type ParsedRlConfig,
  refusedConfigFields,
  type TrainingJob,
  trainingLimits,
} from '../../contract/index.ts';
import { type ResolvedRlConfig, resolveRlConfig } from '../../learning/index.ts';
import { type Access, accessOf } from '../access.ts';
import { groupsField, readGroupedBody } from '../bodies/grouped-body.ts';
import type { ReceivedBody } from '../bodies/received-body.ts';
import { asksForNothing, isObject, parseJson, renameAliases, validateBody } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound, ServiceError, unsupportedField } from '../errors.ts';
import { packGroups } from '../jobs/pack-groups.ts';
import { baseModelOf } from '../jobs/prepare-job.ts';
import type { ResolvedSftConfig } from '../jobs/sft-job.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import { submittedBy } from '../telemetry.ts';
import { findTrainingData } from '../training-data/find.ts';
import { answerBodyOnce, answerOnce } from './answers.ts';
import { findModel } from './models.ts';

/** The request but for what is in its groups, which are read one by one. */
const rlRequestSchema = createTrainingJobRequestSchema.extend({
  [groupsField]: list(z.unknown(), trainingLimits.groups).min(1),
});
const rlFields = new Set(Object.keys(rlRequestSchema.shape));

/** The id that the job will have, the span that asked for it, and what the key that asked for it opens. */
type JobOrigin = Pick<JobRecord, 'id' | 'traceparent'> & { access: Access };

export function trainingJobRoutes(app: Hono, service: ServiceContext): void {
  const { store, queue } = service;

  app.post('/v1/preview/training-jobs', (context) =>
    answerBodyOnce(service, context, async (body, id) => {
      const job = await createRlJob(service, body, originOf(context, id));
      return { status: 200, body: { id: job.id }, modelId: job.modelId };
    }),
  );

  app.post('/v1/preview/sft-training-jobs', (context) =>
    answerOnce(service, context, async (text, id) => {
      const job = await createSftJob(service, parseJson(text), originOf(context, id));
      return { status: 200, body: { id: job.id }, modelId: job.modelId };
    }),
  );

  app.get('/v1/preview/training-jobs/:job_id', async (context) =>
    context.json(toTrainingJob(await findJob(service, accessOf(context), context.req.param('job_id')))),
  );

  app.post('/v1/preview/training-jobs/:job_id/cancel', (context) =>
    answerOnce(service, context, async () => {
      const job = await findJob(service, accessOf(context), context.req.param('job_id'));
      if (job.status === 'succeeded' || job.status === 'failed')
        throw new ServiceError(
          409,
          'job_has_ended',
          `The job ${job.id} has ${job.status}; there is nothing to cancel.`,
        );
      await queue.cancel(job.id);
      const ended = (await store.job(job.id)) ?? job;
      return { status: 200, body: toTrainingJob(ended), modelId: job.modelId };
    }),
  );
}

function originOf(context: Context, id: string): JobOrigin {
  return { id, traceparent: submittedBy(context), access: accessOf(context) };
}

/** A job, as far as the key sees its model. */
export async function findJob(
  { store }: Pick<ServiceContext, 'store'>,
  access: Access,
  id: string,
): Promise<JobRecord> {
  const job = await store.job(id.toLowerCase());
  const model = job && (await store.model(job.modelId));
  if (!job || !model || !access.sees(model.entity)) throw notFound('training_job', id);
  return job;
}

async function createRlJob(
  service: ServiceContext,
  received: ReceivedBody,
  origin: JobOrigin,
): Promise<JobRecord> {
  const { files, constraints, engine } = service;
  const body = await readGroupedBody(received, rlFields);
  const request = validateBody(rlRequestSchema, readRlBody(body.fields));
  // What is wrong with the groups is said before that there is no such model.
  const model = await findModel(service, origin.access, request.model_id).catch((error: unknown) => ({
    error,
  }));
  const base = 'error' in model ? null : baseModelOf(engine, model.baseModel);
  if (!('error' in model)) await checkRoom(service, model, origin);
  const packed = await packGroups(body, { files, surroundings: base && { engine, constraints, base } });
  try {
    if ('error' in model) throw model.error;
    if (packed.complaint !== null) throw packed.complaint;
    const config = await resolveConfig(service, model, request.experimental_config);
    return await acceptRlJob(service, packed.file, {
      ...newJob(origin, model),
      kind: 'rl',
      resolvedConfig: config,
      uploadSha256: null,
    });
  } finally {
    await packed.file.discard();
  }
}

async function resolveConfig(
  { engine, store }: ServiceContext,
  model: ModelRecord,
  given: ParsedRlConfig | undefined,
): Promise<ResolvedRlConfig> {
  const base = baseModelOf(engine, model.baseModel);
  const { config } = resolveRlConfig(given, { learningRate: base.defaults.rlLearningRate });
  const reference = config.kl_penalty_reference_step;
  if (reference !== null && (await store.checkpoint(model.id, reference)) === undefined)
    throw invalidField(
      ['experimental_config', 'kl_penalty_reference_step'],
      `the model has no checkpoint of step ${reference}; GET /v1/preview/models/${model.id}/checkpoints lists those it has`,
      reference,
    );
  return config;
}

/** The payload is there before the job is, and the job before it is told of. */
async function acceptRlJob(
  service: ServiceContext,
  payload: IncomingFile,
  job: JobRecord,
): Promise<JobRecord> {
  if ((await service.store.job(job.id)) === undefined) await service.files.keepPayload(job.id, payload);
  return enqueue(service, job);
}

function readRlBody(body: unknown): unknown {
  if (!isObject(body) || !isObject(body.experimental_config)) return body;
  const place = ['experimental_config'];
  const config = { ...renameAliases(body.experimental_config, configFieldAliases, place) };
  for (const name of refusedConfigFields) {
    if (!asksForNothing(config[name])) throw unsupportedField(['experimental_config', name], config[name]);
    delete config[name];
  }
  return { ...body, experimental_config: config };
}

async function createSftJob(service: ServiceContext, body: unknown, origin: JobOrigin): Promise<JobRecord> {
  const { engine } = service;
  const request = validateBody(createSftTrainingJobRequestSchema, body);
  for (const [name, value] of Object.entries(request.experimental_config ?? {}))
    if (value !== null) throw unsupportedField(['experimental_config', name], value);
  const model = await findModel(service, origin.access, request.model_id);
  await checkRoom(service, model, origin);
  const { sftBatchSize, sftLearningRate } = baseModelOf(engine, model.baseModel).defaults;
  const upload = await findTrainingData(service, origin.access, request.training_data_url);
  const given = request.config?.batch_size ?? 'auto';
  const batchSize = given === 'auto' ? sftBatchSize : given;
  const resolvedConfig: ResolvedSftConfig = {
    batch_size: batchSize,
    learning_rate: request.config?.learning_rate ?? sftLearningRate,
    num_examples: upload.examples,
    num_batches: Math.ceil(upload.examples / batchSize),
  };
  const { learning_rate: rates, num_batches: batches } = resolvedConfig;
  if (typeof rates !== 'number' && rates.length !== batches)
    throw invalidField(
      ['config', 'learning_rate'],
      `has ${rates.length} values for ${batches} batches (${upload.examples} examples in batches of ${batchSize}); give one number, or one for each batch`,
    );
  return enqueue(service, {
    ...newJob(origin, model),
    kind: 'sft',
    resolvedConfig,
    uploadSha256: upload.sha256,
  });
}

/** A job that was made before is told of again, however many wait. */
async function checkRoom(
  { admission, store }: ServiceContext,
  model: ModelRecord,
  { id }: JobOrigin,
): Promise<void> {
  if ((await store.job(id)) === undefined) await admission.job(store, model.id);
}

function newJob({ id, traceparent }: JobOrigin, model: ModelRecord) {
  return {
    id,
    traceparent,
    modelId: model.id,
    status: 'queued',
    createdAt: new Date().toISOString(),
    startedAt: null,
    endedAt: null,
    errorMessage: null,
    step: null,
  } as const;
}

async function enqueue({ store, queue, files }: ServiceContext, job: JobRecord): Promise<JobRecord> {
  if (!(await store.insertJob(job))) {
    // The model was deleted while the payload was written.
    await files.removePayload(job.id);
    throw notFound('model', job.modelId);
  }
  queue.wake();
  return job;
}

function toTrainingJob(job: JobRecord): TrainingJob {
  return {
    id: job.id,
    model_id: job.modelId,
    kind: job.kind,
    status: job.status,
    created_at: job.createdAt,
    started_at: job.startedAt,
    ended_at: job.endedAt,
    error_message: job.errorMessage,
    resolved_config: job.resolvedConfig,
    step: job.step,
  };
}
