import type { Hono } from 'hono';
import { z } from 'zod';
import {
  configFieldAliases,
  createSftTrainingJobRequestSchema,
  createTrainingJobRequestSchema,
  refusedConfigFields,
  type TrainingJob,
  trajectoryGroupSchema,
} from '../../contract/index.ts';
import { resolveRlConfig } from '../../learning/index.ts';
import { asksForNothing, isObject, parseJson, renameAliases, validateBody } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound, ServiceError, unsupportedField } from '../errors.ts';
import { checkTrajectories } from '../jobs/check-choice.ts';
import { baseModelOf } from '../jobs/prepare-job.ts';
import type { ResolvedSftConfig } from '../jobs/sft-job.ts';
import { refuseUnknownTrajectoryFields } from '../jobs/trajectory-fields.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import { submittedBy } from '../telemetry.ts';
import { findTrainingData } from '../training-data/find.ts';
import { validateItems } from '../validation.ts';
import { answerOnce } from './answers.ts';

/** The request with its groups as they came: they are validated in slices. */
const rlRequestSchema = createTrainingJobRequestSchema.extend({
  trajectory_groups: z.array(z.unknown()).min(1),
});

/** The id that the job will have, and the span that asked for it. */
type JobOrigin = Pick<JobRecord, 'id' | 'traceparent'>;

export function trainingJobRoutes(app: Hono, service: ServiceContext): void {
  const { store, queue } = service;

  app.post('/v1/preview/training-jobs', (context) =>
    answerOnce(service, context, async (text, id) => {
      const job = await createRlJob(service, text, { id, traceparent: submittedBy(context) });
      return { status: 200, body: { id: job.id }, modelId: job.modelId };
    }),
  );

  app.post('/v1/preview/sft-training-jobs', (context) =>
    answerOnce(service, context, async (text, id) => {
      const job = await createSftJob(service, parseJson(text), { id, traceparent: submittedBy(context) });
      return { status: 200, body: { id: job.id }, modelId: job.modelId };
    }),
  );

  app.get('/v1/preview/training-jobs/:job_id', async (context) =>
    context.json(toTrainingJob(await findJob(service, context.req.param('job_id')))),
  );

  app.post('/v1/preview/training-jobs/:job_id/cancel', (context) =>
    answerOnce(service, context, async () => {
      const job = await findJob(service, context.req.param('job_id'));
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

export async function findJob(service: ServiceContext, id: string): Promise<JobRecord> {
  const job = await service.store.job(id.toLowerCase());
  if (!job) throw notFound('training_job', id);
  return job;
}

async function createRlJob(service: ServiceContext, text: string, origin: JobOrigin): Promise<JobRecord> {
  const { id } = origin;
  const { store, files, constraints, engine } = service;
  const request = validateBody(rlRequestSchema, readRlBody(parseJson(text)));
  const place = ['body', 'trajectory_groups'];
  const groups = await validateItems(trajectoryGroupSchema, request.trajectory_groups, place);
  refuseUnknownTrajectoryFields(request.trajectory_groups);
  const model = await modelToTrain(service, request.model_id);
  const base = baseModelOf(engine, model.baseModel);
  await checkTrajectories(groups, { engine, constraints, base });
  const { config } = resolveRlConfig(request.experimental_config, {
    learningRate: base.defaults.rlLearningRate,
  });
  const reference = config.kl_penalty_reference_step;
  if (reference !== null && (await store.checkpoint(model.id, reference)) === undefined)
    throw invalidField(
      ['experimental_config', 'kl_penalty_reference_step'],
      `the model has no checkpoint of step ${reference}; GET /v1/preview/models/${model.id}/checkpoints lists those it has`,
      reference,
    );
  if ((await store.job(id)) === undefined) await files.writePayload(id, text);
  return enqueue(service, {
    ...newJob(origin, model),
    kind: 'rl',
    resolvedConfig: config,
    uploadSha256: null,
  });
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
  const model = await modelToTrain(service, request.model_id);
  const { sftBatchSize, sftLearningRate } = baseModelOf(engine, model.baseModel).defaults;
  const upload = await findTrainingData(service, request.training_data_url);
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

async function modelToTrain({ store }: ServiceContext, id: string): Promise<ModelRecord> {
  const model = await store.model(id.toLowerCase());
  if (!model) throw notFound('model', id);
  return model;
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
