import { randomUUID } from 'node:crypto';
import type { Span } from '@opentelemetry/api';
import type { z } from 'zod';
import type { RlConfig } from '../contract/index.ts';
import { type ModelHandle, newestStep, requireModelId } from '../model/index.ts';
import { type Books, type GroupsResult, runGroups } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed, type TrajectoryGroup } from '../trajectory/index.ts';
import { pruneCheckpoints } from './checkpoints.ts';
import { NoCompletedRolloutsError } from './errors.ts';
import { followJob, type JobOutcome } from './follow-job.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import { type RunDirectory, stepName } from './run-directory.ts';
import type { RunListener, StepReport } from './run-event.ts';
import { toStepReport } from './step-report.ts';
import { startStopwatch } from './stopwatch.ts';
import { logTrajectories, submitTraining } from './submit-training.ts';
import type { TrainSettings } from './train-options.ts';

export interface TrainStepOptions<Schema extends z.ZodType, Outcome> {
  settings: TrainSettings<Schema, Outcome>;
  /** Counted from 0. */
  step: number;
  scenarios: readonly z.input<Schema>[];
  /** Pinned to the checkpoint that the rollouts sample from. */
  model: ModelHandle;
  /** Checkpoints of this run that are still there. */
  checkpoints: readonly number[];
  directory: RunDirectory;
  emit: RunListener;
  /** Told as soon as the rollouts have ended, also when the step is then stopped. */
  onBooks: (books: Books) => void;
}

export interface TrainStepResult {
  report: StepReport;
  /** Pinned to the newest checkpoint: a new one, or the old one where there was nothing to learn. */
  model: ModelHandle;
  checkpoints: number[];
}

/**
 * One step: gather groups, write them to disk, log them, train on them, take up the new checkpoint.
 * @throws the signal's reason when the run is stopped meanwhile; what was gathered is on disk then.
 */
export async function trainStep<Schema extends z.ZodType, Outcome>(
  options: TrainStepOptions<Schema, Outcome>,
): Promise<TrainStepResult> {
  const { settings, step, model, directory, emit, onBooks } = options;
  const { signal, steps } = settings;
  const clock = startStopwatch();

  const rollouts = await gather(options);
  onBooks(rollouts.books);
  const trajectories = await directory.writeTrajectories(stepName(step), rollouts.groups);
  signal?.throwIfAborted();
  if (rollouts.books.completed === 0) throw new NoCompletedRolloutsError(`step ${step}`, rollouts.groups);
  const groups = rollouts.groups.map((group) => group.toTrajectoryGroup());
  const groupsWithSignal = groups.filter((group) => group.hasSignal).length;
  const rolloutSeconds = clock.lap();

  await logTrajectories({ model, split: 'train', groups, signal });
  const logSeconds = clock.lap();

  const config = typeof settings.config === 'function' ? settings.config({ step, steps }) : settings.config;
  // Without an entropy bonus, equal rewards give no gradient at all: the service would refuse, or train on nothing.
  const canTrain = groupsWithSignal > 0 || (config?.entropy_coefficient ?? 0) > 0;
  const train = (span: Span) => runJob({ ...options, groups, config, trajectories, span });
  const attributes = { [attribute.jobKind]: 'rl', [attribute.modelId]: model.id };
  const job = canTrain ? await withSpan(spanName.job, attributes, train) : null;
  const trainingSeconds = clock.lap();

  const next = job ? await takeNewCheckpoint(options) : { model, checkpoints: [...options.checkpoints] };
  const phases = {
    rollouts: rolloutSeconds,
    log: logSeconds,
    training: trainingSeconds,
    checkpoint: clock.lap(),
  };
  const report = toStepReport({
    step,
    steps,
    policy: model.name,
    rollouts,
    groupsWithSignal,
    job,
    phases,
    seconds: clock.total(),
  });
  directory.appendMetrics(report);
  emit({ type: 'step', ...report });
  return { report, ...next };
}

function gather<Schema extends z.ZodType, Outcome>({
  settings,
  step,
  scenarios,
  model,
  emit,
}: TrainStepOptions<Schema, Outcome>): Promise<GroupsResult<z.output<Schema>>> {
  const {
    environment,
    rolloutsPerGroup,
    concurrency,
    rolloutTimeoutMs,
    onUnexpectedCall,
    seed = 0,
    signal,
  } = settings;
  return runGroups({
    environment,
    scenarios,
    rolloutsPerGroup,
    model,
    seed: deriveSeed(seed, step),
    onProgress: ({ done, total }) => emit({ type: 'rollouts', step, done, total }),
    concurrency,
    timeoutMs: rolloutTimeoutMs,
    onUnexpectedCall,
    signal,
  });
}

/** The job's key is on disk before the job is asked for: asking again after a crash gives the same job. */
async function runJob<Schema extends z.ZodType, Outcome>({
  settings: { signal, jobTimeoutMs },
  step,
  model,
  groups,
  config,
  trajectories,
  directory,
  emit,
  span,
}: TrainStepOptions<Schema, Outcome> & {
  groups: readonly TrajectoryGroup[];
  config: RlConfig | undefined;
  trajectories: string;
  span: Span;
}): Promise<JobOutcome> {
  const idempotencyKey = randomUUID();
  const record = {
    step,
    idempotencyKey,
    modelId: requireModelId(model),
    policy: model.name,
    config: config ?? {},
    trajectories,
  };
  await directory.writeJob(record);
  // Not interrupted at once: a job that is asked for and not known could not be cancelled.
  const { jobId } = await withGrace(signal, stopGraceMs, (patient) =>
    submitTraining({ model, groups, idempotencyKey, config, signal: patient }),
  );
  span.setAttribute(attribute.jobId, jobId);
  await directory.writeJob({ ...record, jobId });
  emit({ type: 'job', step, status: 'submitted', gradientSteps: 0, total: null });
  return followJob({
    client: model.client,
    jobId,
    onProgress: ({ status, gradientSteps, total }) =>
      emit({ type: 'job', step, status, gradientSteps, total }),
    timeoutMs: jobTimeoutMs,
    signal,
  });
}

/** Short and not interrupted at once: a run that is stopped here has its new checkpoint all the same. */
function takeNewCheckpoint<Schema extends z.ZodType, Outcome>({
  settings: { keepCheckpoints = 2, signal },
  model,
  checkpoints,
}: TrainStepOptions<Schema, Outcome>): Promise<{ model: ModelHandle; checkpoints: number[] }> {
  return withGrace(signal, stopGraceMs, async (patient) => {
    const newest = await newestStep(model, patient);
    const made = [...checkpoints, newest];
    return {
      model: model.at(newest),
      checkpoints: await pruneCheckpoints({ model, made, keep: keepCheckpoints, signal: patient }),
    };
  });
}
