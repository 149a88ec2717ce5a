import type { Access } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound } from '../errors.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';

/** The job's future id, the trace span of its request, and the access of the request's key. */
export type JobOrigin = Pick<JobRecord, 'id' | 'traceparent'> & { access: Access };

/** Reserves a slot for a job until it is stored or refused. @throws BusyError */
export const reserveJob = (
  { admission, store }: ServiceContext,
  { id }: ModelRecord,
  { access }: JobOrigin,
) => admission.job(store, { modelId: id, tenant: access.tenant });

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
 * Stores the payload, then the job, then announces it. If the job cannot be stored, its payload is
 * removed.
 */
export async function acceptJob(
  { store, queue, files }: ServiceContext,
  job: JobRecord,
  payload: IncomingFile | null,
): Promise<JobRecord> {
  try {
    if (payload) await files.keepPayload(job.id, payload);
    // The model may have been deleted meanwhile.
    if (!(await store.insertJob(job))) throw notFound('model', job.modelId);
  } catch (error) {
    // If this lookup or removal fails too, the next start removes the payload.
    const stored = await store.job(job.id).catch(() => job);
    if (payload && !stored) await files.removePayload(job.id).catch(() => {});
    throw error;
  }
  queue.wake();
  return job;
}
