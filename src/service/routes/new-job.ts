import type { Access } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound } from '../errors.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';

/** The id that the job will have, the span that asked for it, and what the key that asked for it opens. */
export type JobOrigin = Pick<JobRecord, 'id' | 'traceparent'> & { access: Access };

/** Keeps a place for a job until it is stored, or is not to be. @throws BusyError */
export function takeRoom({ admission, store }: ServiceContext, model: ModelRecord, { access }: JobOrigin) {
  return admission.job(store, { modelId: model.id, tenant: access.tenant });
}

export function newJob({ id, traceparent, access }: JobOrigin, model: ModelRecord) {
  return {
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
  } as const;
}

/**
 * The payload is there before the job is, and the job before it is told of. Where the job cannot be stored its payload
 * does not stay.
 */
export async function acceptJob(
  { store, queue, files }: ServiceContext,
  job: JobRecord,
  payload: IncomingFile | null,
): Promise<JobRecord> {
  try {
    if (payload) await files.keepPayload(job.id, payload);
    // The model may have been deleted while the payload was written.
    if (!(await store.insertJob(job))) throw notFound('model', job.modelId);
  } catch (error) {
    // What cannot be looked up or removed either goes at the next start.
    const stored = await store.job(job.id).catch(() => job);
    if (payload && !stored) await files.removePayload(job.id).catch(() => {});
    throw error;
  }
  queue.wake();
  return job;
}
