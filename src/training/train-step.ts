import { basename } from 'node:path';
import type { Span } from '@opentelemetry/api';
import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import type { RunListener, StepReport } from '../progress/index.ts';
import type { GroupsResult } from '../rollout/index.ts';
import { attribute, recordStep, spanName, withSpan } from '../telemetry/index.ts';
import { NoCompletedRolloutsError } from './errors.ts';
import { logOnce } from './log-once.ts';
import { configOf } from './option-names.ts';
import type { RunContext } from './run-context.ts';
import { stepName } from './run-layout.ts';
import { withoutStep } from './run-span.ts';
import { runStepJob } from './step-job.ts';
import { toStepReport } from './step-report.ts';
import { startStopwatch } from './stopwatch.ts';

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
