import type { Context } from 'hono';
import type { TrainingJob, Upload } from '../../contract/index.ts';
import { type Access, accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound, ServiceError } from '../errors.ts';
import { readJson } from '../json/parse.ts';
import { operations } from '../openapi/operations.ts';
import type { JobRecord } from '../store/store.ts';
import { submittedBy } from '../telemetry.ts';
import { checkTrainingData, keepTrainingData } from '../training-data/keep.ts';
import { createRlJob } from './create-rl-job.ts';
import { createSftJob } from './create-sft-job.ts';
import type { JobOrigin } from './new-job.ts';
import { answerBodyOnce, answerOnce, type Register } from './route.ts';

export function trainingJobRoutes(on: Register, service: ServiceContext): void {
  const { store, queue } = service;

  /** Creates a job, or finds the one that an earlier try with the same Idempotency-Key created. */
  const createOnce = async (
    context: Context,
    id: string,
    create: (origin: JobOrigin) => Promise<JobRecord>,
  ) => {
    const origin = { id, traceparent: submittedBy(context), access: accessOf(context) };
    const job = (await findEarlierJob(service, id)) ?? (await create(origin));
    return { body: { id: job.id }, modelId: job.modelId };
  };

  on(operations.createRlJob, (context) =>
    answerBodyOnce(service, context, (body, id) =>
      createOnce(context, id, (origin) => createRlJob(service, body, origin)),
    ),
  );

  on(operations.createSftJob, (context) =>
    answerOnce(service, context, (content, id) =>
      createOnce(context, id, async (origin) => createSftJob(service, await readJson(content), origin)),
    ),
  );

  on(operations.getJob, async (context) =>
    context.json(toTrainingJob(await findJob(service, accessOf(context), context.req.param('job_id')))),
  );

  on(operations.cancelJob, (context) =>
    answerOnce(service, context, async () => {
      const job = await findJob(service, accessOf(context), context.req.param('job_id'));
      if (job.status === 'succeeded' || job.status === 'failed')
        throw new ServiceError(
          409,
          'job_has_ended',
          `The job ${job.id} has ${job.status} and cannot be cancelled.`,
        );
      await queue.cancel(job.id);
      const ended = (await store.job(job.id)) ?? job;
      return { body: toTrainingJob(ended), modelId: job.modelId };
    }),
  );

  on(operations.upload, (context) =>
    answerBodyOnce(service, context, async ({ file: large, memory }) => {
      const file = large ?? (await service.files.createIncoming());
      try {
        if (memory) await file.append(memory);
        const { entity } = accessOf(context);
        const data = await checkTrainingData(service, file, entity);
        const { sha256, bytes } = await keepTrainingData(service, file, { data, entity });
        const upload: Upload = { id: `sha256-${sha256}`, url: `upload:sha256-${sha256}`, sha256, bytes };
        return { body: upload, modelId: null };
      } finally {
        await file.discard();
      }
    }),
  );
}

/** Finds a job whose model the key can see. */
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

async function findEarlierJob({ store, queue }: ServiceContext, id: string): Promise<JobRecord | undefined> {
  const job = await store.job(id);
  if (!job || !(await store.model(job.modelId))) return undefined;
  // The earlier try may have ended before waking the queue.
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
    untrained: job.untrained,
  };
}
