import type { Context } from 'hono';
import type { TrainingJob } from '../../contract/index.ts';
import { type Access, accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound, ServiceError } from '../errors.ts';
import { readJson } from '../json/parse.ts';
import { operations } from '../openapi/operations.ts';
import type { JobRecord } from '../store/store.ts';
import { submittedBy } from '../telemetry.ts';
import { answerBodyOnce, answerOnce } from './answers.ts';
import { createRlJob } from './create-rl-job.ts';
import { createSftJob } from './create-sft-job.ts';
import type { JobOrigin } from './new-job.ts';
import type { Register } from './route.ts';

export function trainingJobRoutes(on: Register, service: ServiceContext): void {
  const { store, queue } = service;

  on(operations.createRlJob, (context) =>
    answerBodyOnce(service, context, async (body, id) => {
      const job =
        (await madeBefore(service, id)) ?? (await createRlJob(service, body, originOf(context, id)));
      return { status: 200, body: { id: job.id }, modelId: job.modelId };
    }),
  );

  on(operations.createSftJob, (context) =>
    answerOnce(service, context, async (content, id) => {
      const job =
        (await madeBefore(service, id)) ??
        (await createSftJob(service, await readJson(content), originOf(context, id)));
      return { status: 200, body: { id: job.id }, modelId: job.modelId };
    }),
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

/** The job of this id if an earlier try with the same Idempotency-Key created it. */
async function madeBefore({ store, queue }: ServiceContext, id: string): Promise<JobRecord | undefined> {
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
