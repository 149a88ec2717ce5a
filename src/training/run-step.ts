import { basename } from 'node:path';
import type { Span } from '@opentelemetry/api';
import type { z } from 'zod';
import type { RlConfig } from '../contract/index.ts';
import type { DrawnScenario } from '../environment/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import type { RunListener, StepReport } from '../progress/index.ts';
import { countRollouts, type GroupsResult, RolloutGroup, runGroup } from '../rollout/index.ts';
import { attribute, recordStep, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed, type TrajectoryGroup } from '../trajectory/index.ts';
import { configOf } from './check-options.ts';
import { NoCompletedRolloutsError } from './errors.ts';
import { type RunContext, startStopwatch } from './run-context.ts';
import { stepName } from './run-files.ts';
import { type JobEnd, runJob } from './run-job.ts';
import { withoutStep } from './run-origin.ts';
import type { JobRecord } from './run-state.ts';
import { toStepReport } from './step-report.ts';
import { logOnce, submitTraining } from './submit-training.ts';
import { trainDefaults } from './train-options.ts';

/** A step whose rollouts may begin: what they sample from, and their scenarios. */
export interface AdmittedStep<Schema extends z.ZodType> {
  /** Counted from 0. */
  step: number;
  /** Pinned to the checkpoint that the rollouts sample from. */
  model: ModelHandle;
  scenarios: readonly DrawnScenario<z.output<Schema>>[];
  /** Groups that had ended before the run was interrupted, by their index. */
  kept: ReadonlyMap<number, RolloutGroup>;
}

/**
 * Runs the groups of a step that have not ended yet, and keeps each on disk as it ends.
 * @throws what keeping them throws; the step's other rollouts have ended then.
 */
export async function gatherStep<Schema extends z.ZodType, Outcome>(
  { settings, executor, directory, emit, signal: runSignal }: RunContext<Schema, Outcome>,
  { step, model, scenarios, kept }: AdmittedStep<Schema>,
): Promise<GroupsResult<z.output<Schema>>> {
  const { environment, rolloutsPerGroup, groupStrategy } = settings;
  const { seed = trainDefaults.seed, onUnexpectedCall = trainDefaults.onUnexpectedCall } = settings;
  const { rolloutTimeoutMs = trainDefaults.rolloutTimeoutMs, groupTimeoutMs = Number.POSITIVE_INFINITY } =
    settings;
  const { rewardTimeoutMs = rolloutTimeoutMs } = settings;
  const begun = performance.now();
  const failed = new AbortController();
  const signal = AbortSignal.any([runSignal, failed.signal]);
  const total = scenarios.length * rolloutsPerGroup;
  let done = kept.size * rolloutsPerGroup;
  const tell = () => emit({ type: 'rollouts', step, done, total });
  if (done > 0) tell();

  const gather = async ({ scenario }: DrawnScenario<z.output<Schema>>, index: number) => {
    const before = kept.get(index);
    if (before) {
      const { rollouts, droppedBecause } = before;
      return new RolloutGroup<z.output<Schema>>({ index, scenario, rollouts, droppedBecause });
    }
    const group = await runGroup({
      environment,
      scenario,
      rolloutsPerGroup,
      model,
      group: index,
      seed: deriveSeed(seed, step),
      executor,
      strategy: groupStrategy,
      timeoutMs: rolloutTimeoutMs,
      rewardTimeoutMs,
      groupTimeoutMs,
      onUnexpectedCall,
      onRollout: (_, { isLast }) => {
        if (!isLast) return;
        done++;
        tell();
      },
      signal,
    });
    // The environment's code may still hold parts of it: what is written, logged and trained on is to be the same.
    for (const { trajectory } of group.rollouts) trajectory.seal();
    // What did not complete after a stop may be its doing: such a group runs again when the run is resumed.
    const wasStopped = signal.aborted && group.rollouts.some(({ status }) => status !== 'completed');
    if (!wasStopped) await directory.keepGroup(step, group);
    return group;
  };
  const gathering = scenarios.map(gather);
  try {
    const groups = await Promise.all(gathering);
    const rollouts = groups.flatMap((group) => group.rollouts);
    return {
      groups,
      counts: countRollouts(rollouts),
      sampledTokens: rollouts.reduce((sum, { trajectory }) => sum + trajectory.sampledTokens, 0),
      durationMs: performance.now() - begun,
    };
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(gathering);
    throw error;
  }
}

export interface TrainStepOptions<Schema extends z.ZodType, Outcome> {
  context: RunContext<Schema, Outcome>;
  step: number;
  /** What the rollouts sampled from. */
  sampled: ModelHandle;
  /** Pinned to the newest checkpoint, which is trained. */
  model: ModelHandle;
  rollouts: GroupsResult<z.output<Schema>>;
  /** Seconds since the step was admitted. */
  elapsed: () => number;
}

export interface TrainStepResult {
  report: StepReport;
  /** Pinned to the newest checkpoint: a new one, or the old one where there was nothing to learn. */
  model: ModelHandle;
}

/**
 * What follows the rollouts of a step: write them to disk, log them, train on them, take up the new checkpoint.
 * @throws the signal's reason when the run is stopped meanwhile; what was gathered is on disk then.
 */
export async function trainStep<Schema extends z.ZodType, Outcome>(
  options: TrainStepOptions<Schema, Outcome>,
): Promise<TrainStepResult> {
  const { context, step, sampled, model, rollouts, elapsed } = options;
  const { settings, directory, signal, runId } = context;
  const { steps } = settings;
  const clock = startStopwatch();
  const trajectories = await directory.writeTrajectories(stepName(step), rollouts.groups);
  signal.throwIfAborted();
  context.tellFailures({ name: stepName(step), step }, rollouts.groups);
  if (rollouts.counts.completed === 0)
    throw new NoCompletedRolloutsError(`step ${step + 1}`, rollouts.groups);
  const all = rollouts.groups.map((group) => group.toTrajectoryGroup());
  const groups = rollouts.groups
    .filter(({ isTrainable }) => isTrainable)
    .map((group) => group.toTrajectoryGroup());
  const groupsWithSignal = groups.filter((group) => group.hasSignal).length;
  const idempotencyKey = `${runId}/${stepName(step)}`;
  const name = stepName(step);
  await logOnce({ model, split: 'train', groups: all, idempotencyKey, signal, directory, name });
  const log = clock.lap();

  const config = configOf(settings, step);
  // Without an entropy bonus, equal rewards give no gradient at all: the service would refuse, or train on nothing.
  const canTrain = groupsWithSignal > 0 || (groups.length > 0 && (config?.entropy_coefficient ?? 0) > 0);
  let training: number | undefined;
  const emit: RunListener = (event) => {
    if (event.type === 'job' && event.status === 'ended') training ??= clock.lap();
    context.emit(event);
  };
  const train = (span: Span) =>
    runStepJob({ context: { ...context, emit }, step, model, groups, config, trajectories, span });
  const attributes = { [attribute.jobKind]: 'rl', [attribute.modelId]: model.id };
  const job = canTrain ? await withSpan(spanName.job, attributes, train) : null;
  const report = toStepReport({
    step,
    steps,
    policy: sampled.name,
    staleness: (model.step ?? 0) - (sampled.step ?? 0),
    rollouts,
    groupsWithSignal,
    job,
    prices: settings.prices,
    phases: {
      rollouts: rollouts.durationMs / 1000,
      log,
      training: training ?? clock.lap(),
      checkpoint: clock.lap(),
    },
    seconds: elapsed(),
    loopDelayMs: context.loopDelay.take(),
  });
  const labels = { runId: basename(directory.path), environment: settings.environment.name };
  recordStep({ ...report, staleness: report.staleness.mean }, { ...labels, model: withoutStep(model) });
  return { report, model: job ? model.at(job.step) : model };
}

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
