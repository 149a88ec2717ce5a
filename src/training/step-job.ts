import { randomUUID } from 'node:crypto';
import type { Span } from '@opentelemetry/api';
import type { z } from 'zod';
import { RequestError } from '../client/index.ts';
import type { RlConfig } from '../contract/index.ts';
import { type ModelHandle, newestStep, requireModelId } from '../model/index.ts';
import { attribute } from '../telemetry/index.ts';
import type { TrajectoryGroup } from '../trajectory/index.ts';
import { TrainingJobError } from './errors.ts';
import { followJob } from './follow-job.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import type { RunContext } from './run-context.ts';
import type { JobRecord } from './run-state.ts';
import { submitTraining } from './submit-training.ts';

export interface StepJobOptions<Schema extends z.ZodType, Outcome> {
  context: RunContext<Schema, Outcome>;
  step: number;
  /** Pinned to the newest checkpoint: the job trains on from it. */
  model: ModelHandle;
  groups: readonly TrajectoryGroup[];
  config: RlConfig | undefined;
  /** File of the groups, relative to the run directory. */
  trajectories: string;
  span: Span;
}

type Outcome = NonNullable<JobRecord['outcome']>;

/**
 * Has the service train on a step, and waits for the checkpoint. Its key is on disk before the job is asked for: a
 * run that is resumed asks with the same key and gets the same job, follows one that it knows, and asks anew only
 * where that one has failed or was cancelled.
 */
export async function runStepJob<Schema extends z.ZodType, Result>(
  options: StepJobOptions<Schema, Result>,
): Promise<Outcome> {
  const { context, step, model, groups, span } = options;
  const { directory, emit, signal } = context;
  const before = await directory.readJob(step);
  if (before?.outcome) return before.outcome;
  const taken = before?.jobId === undefined ? undefined : await takeUp(options, before, before.jobId);
  if (taken) return taken;

  const record = before && before.jobId === undefined ? before : newRecord(options);
  await directory.writeJob(record);
  // Not interrupted at once: a job that is asked for and not known could not be cancelled.
  const { jobId } = await withGrace(signal, stopGraceMs, (patient) =>
    submitTraining({
      model,
      groups,
      idempotencyKey: record.idempotencyKey,
      config: record.config ?? undefined,
      signal: patient,
    }),
  );
  span.setAttribute(attribute.jobId, jobId);
  await directory.writeJob({ ...record, jobId });
  emit({ type: 'job', step, status: 'submitted', gradientSteps: 0, total: null });
  return follow(options, record, jobId);
}

function newRecord<Schema extends z.ZodType, Result>({
  step,
  model,
  config,
  trajectories,
}: StepJobOptions<Schema, Result>): JobRecord {
  return {
    step,
    idempotencyKey: randomUUID(),
    modelId: requireModelId(model),
    policy: model.name,
    from: model.step ?? 0,
    config: config ?? null,
    trajectories,
  };
}

/** What came of a job that was known when the run was interrupted; undefined where it has to be asked for again. */
async function takeUp<Schema extends z.ZodType, Result>(
  options: StepJobOptions<Schema, Result>,
  record: JobRecord,
  jobId: string,
): Promise<Outcome | undefined> {
  const { model, context } = options;
  options.span.setAttribute(attribute.jobId, jobId);
  try {
    return await follow(options, record, jobId);
  } catch (error) {
    if (error instanceof TrainingJobError) return undefined;
    if (!(error instanceof RequestError) || error.status !== 404) throw error;
    // The service has forgotten the job; its checkpoint, where it made one, is there all the same.
    const newest = await newestStep(model, context.signal);
    return newest > record.from ? { gradientSteps: [], step: newest } : undefined;
  }
}

async function follow<Schema extends z.ZodType, Result>(
  { context, step, model }: StepJobOptions<Schema, Result>,
  record: JobRecord,
  jobId: string,
): Promise<Outcome> {
  const { settings, directory, emit, signal } = context;
  const { gradientSteps } = await followJob({
    client: model.client,
    jobId,
    onProgress: ({ status, gradientSteps, total }) =>
      emit({ type: 'job', step, status, gradientSteps, total }),
    timeoutMs: settings.jobTimeoutMs,
    signal,
  });
  // Short and not interrupted at once: a run that is stopped here has its new checkpoint all the same.
  return withGrace(signal, stopGraceMs, async (patient) => {
    const outcome = { gradientSteps, step: await newestStep(model, patient) };
    await directory.writeJob({ ...record, jobId, outcome });
    return outcome;
  });
}
