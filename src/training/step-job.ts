import type { Span } from '@opentelemetry/api';
import type { z } from 'zod';
import type { RlConfig } from '../contract/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import { attribute } from '../telemetry/index.ts';
import type { TrajectoryGroup } from '../trajectory/index.ts';
import type { RunContext } from './run-context.ts';
import { type JobEnd, runJob } from './run-job.ts';
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

/** What a person does about a job of a run of which it is not known what became of it. */
export const goOnWithResume = (mayAskAgain: boolean) =>
  'Look at the model on the service, then go on with `resume`: as it is, where the checkpoint has come meanwhile; ' +
  (mayAskAgain ? "with `lostJob: { decision: 'ask_again' }`, where there is no such job; " : '') +
  "with `lostJob: { decision: 'take_as_done' }`, to go on from the newest checkpoint.";

/**
 * Has the service train on a step, and waits for the checkpoint. What is known of the job is on disk: a run that is
 * resumed asks with the same key and gets the same job, follows one that it knows, and asks anew only where that one
 * has failed or was cancelled.
 */
export async function runStepJob<Schema extends z.ZodType, Result>({
  context,
  step,
  model,
  groups,
  config,
  trajectories,
  span,
}: StepJobOptions<Schema, Result>): Promise<JobEnd> {
  const { settings, directory, emit, signal } = context;
  return runJob<JobRecord>({
    model,
    name: `The training job of step ${step + 1}`,
    goOn: goOnWithResume,
    before: await directory.readJob(step),
    begin: (idempotencyKey) => ({
      step,
      idempotencyKey,
      modelId: requireModelId(model),
      policy: model.name,
      from: model.step ?? 0,
      config: config ?? null,
      trajectories,
    }),
    keep: (record) => directory.writeJob(record),
    create: (record, patient) =>
      submitTraining({
        model,
        groups,
        idempotencyKey: record.idempotencyKey,
        config: record.config ?? undefined,
        signal: patient,
      }),
    onKnown: (jobId, isNew) => {
      span.setAttribute(attribute.jobId, jobId);
      if (isNew) emit({ type: 'job', step, status: 'submitted', gradientSteps: 0, total: null });
    },
    onProgress: ({ status, gradientSteps, total }) =>
      emit({ type: 'job', step, status, gradientSteps, total }),
    timeoutMs: settings.jobTimeoutMs,
    lostJob: settings.lostJob,
    signal,
  });
}
