import type { z } from 'zod';
import { requireModelId } from '../model/index.ts';
import { configOf } from './job-config.ts';
import type { Learner } from './learners.ts';
import type { RunContext } from './run-context.ts';
import { runFiles, trajectoriesFile } from './run-directory.ts';
import { stepName } from './run-files.ts';
import { type JobEnd, type RunJobOptions, resumeAdvice, runJob } from './run-job.ts';
import { type GroupsToSend, submitTraining } from './submit-training.ts';

interface StepJob {
  step: number;
  learner: Learner;
  groups: (signal: AbortSignal) => Promise<GroupsToSend>;
  onProgress: RunJobOptions['onProgress'];
}

/**
 * Runs the training job of a learner in a step and waits for its checkpoint. The job's state is on disk, so a resumed
 * run requests the job with the same key or follows it by its id. It creates another one only if the first failed or
 * was cancelled.
 */
export async function runStepJob<Schema extends z.ZodType, Outcome>(
  { settings, directory, signal }: RunContext<Schema, Outcome>,
  { step, learner, groups, onProgress }: StepJob,
): Promise<{ outcome: JobEnd; jobId: string | undefined }> {
  const { model } = learner;
  const file = runFiles.job(learner.stepName(step));
  const before = await directory.read(file);
  let jobId = before?.jobId;
  const request = {
    step,
    modelId: requireModelId(model),
    policy: model.name,
    // A repeated request must be identical.
    config: before ? before.config : (configOf(settings, step) ?? null),
    trajectories: trajectoriesFile(stepName(step)),
  };
  const outcome = await runJob({
    kind: 'rl',
    model,
    name: `The training job of step ${step}${learner.isPolicy ? '' : ` for ${learner.state.name}`}`,
    advice: resumeAdvice,
    before,
    save: (state) => {
      jobId = state.jobId;
      return directory.write(file, { ...request, ...state });
    },
    create: async (idempotencyKey, graceSignal) =>
      submitTraining({
        model,
        groups: await groups(graceSignal),
        idempotencyKey,
        config: request.config ?? undefined,
        signal: graceSignal,
      }),
    onProgress,
    timeoutMs: settings.jobTimeoutMs,
    lostJob: settings.lostJob,
    signal,
  });
  return { outcome, jobId };
}
