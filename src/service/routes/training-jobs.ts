import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import {
  orderedPageQuerySchema,
  pageQuerySchema,
  type TrainingEvent,
  type TrainingJob,
  type Upload,
} from '../../contract/index.ts';
import { dataFrame } from '../../util/event-stream.ts';
import { type Access, accessOf, tenantOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound, RequestValidationError, ServiceError, unknownCursor } from '../errors.ts';
import { tokenPage } from '../jobs/trained-tokens.ts';
import { readJson } from '../json/read-text.ts';
import { operations } from '../openapi/operations.ts';
import { serverSentEvents } from '../server-sent-events.ts';
import type { JobRecord } from '../store/store.ts';
import { submittedBy } from '../telemetry.ts';
import { checkTrainingData, keepTrainingData } from '../training-data/keep.ts';
import { validate } from '../validation.ts';
import { createRlJob, createSftJob, type JobOrigin } from './create-jobs.ts';
import { findModel } from './models.ts';
import { answerBodyOnce, answerOnce, type Register, toPage } from './route.ts';

/** After this much silence a comment is sent, so that neither end takes the connection for dead. */
const idleMs = 15_000;

export function trainingJobRoutes(on: Register, service: ServiceContext): void {
  const { store, queue, events, closing, log } = service;

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

  on(operations.listJobs, async (context) => {
    const { id } = await findModel(service, accessOf(context), context.req.param('model_id'));
    const query = validate(orderedPageQuerySchema, context.req.query(), 'query');
    return context.json(toPage(await store.jobsOf(id, query), toTrainingJob));
  });

  on(operations.listTokens, async (context) => {
    const job = await findJob(service, accessOf(context), context.req.param('job_id'));
    const query = validate(pageQuerySchema, context.req.query(), 'query');
    const tokens = job.status === 'succeeded' ? service.recentTokens.of(job.id) : undefined;
    if (!tokens)
      throw new ServiceError(
        404,
        'tokens_not_known',
        `The tokens of the job ${job.id} are not known: they are kept for the newest reinforcement-learning jobs that trained, until the service restarts.`,
      );
    const page = tokenPage(tokens, query);
    if (!page) throw unknownCursor(query.after ?? '');
    return context.json(toPage(page, (item) => item));
  });

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
    answerBodyOnce(service, context, async ({ content }) => {
      const file = Buffer.isBuffer(content) ? await service.files.createIncoming() : content;
      try {
        if (Buffer.isBuffer(content)) await file.append(content);
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

  on(operations.listEvents, async (context) => {
    const job = await findJob(service, accessOf(context), context.req.param('job_id'));
    const query = validate(pageQuerySchema, context.req.query(), 'query');
    if (!wantsStream(context))
      return context.json(toPage(await store.events(job.id, { ...query, order: 'asc' }), (event) => event));
    const lastId = context.req.header('last-event-id');
    const after = lastId || query.after;
    // Refuses an unknown cursor while the status can still say so.
    await store.events(job.id, { after, limit: 1, order: 'asc' }).catch((error: unknown) => {
      throw lastId && error instanceof RequestValidationError
        ? unknownCursor(lastId, ['header', 'Last-Event-ID'])
        : error;
    });
    const slot = service.admission.eventStreams.take(tenantOf(context));
    return serverSentEvents(
      context,
      async function* (disconnected) {
        const signal = AbortSignal.any([disconnected, closing]);
        for await (const happened of events.follow(job.id, after, { signal, idleMs }))
          yield happened.length === 0 ? ': nothing yet\n\n' : happened.map(toFrame).join('');
      },
      { log, ended: slot.release },
    );
  });
}

/** Finds a job whose model the key can see. */
async function findJob(
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

/** Whether the client prefers an event stream to JSON. */
function wantsStream(context: Context): boolean {
  const [json, stream] = ['application/json', 'text/event-stream'];
  const chosen = accepts(context, {
    header: 'Accept',
    supports: [json, stream],
    default: json,
    match: (accepted, { supports }) =>
      accepted
        .filter(({ type, q }) => q > 0 && supports.includes(type))
        .reduce((best, next) => (next.q > best.q ? next : best), { type: json, q: 0 }).type,
  });
  return chosen === stream;
}

const toFrame = (event: TrainingEvent) => `id: ${event.id}\n${dataFrame(event)}`;
