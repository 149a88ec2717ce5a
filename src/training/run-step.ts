import { basename } from 'node:path';
import type { z } from 'zod';
import type { DrawnScenario } from '../environment/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import type { StepReport } from '../progress/index.ts';
import { type GroupsResult, type RolloutGroup, runParsedGroups } from '../rollout/index.ts';
import { attribute, recordStep, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed, type TrajectoryGroup } from '../trajectory/index.ts';
import { configOf } from './check-options.ts';
import { noCompletedRollouts } from './errors.ts';
import { type RunContext, startStopwatch } from './run-context.ts';
import { stepName } from './run-files.ts';
import { type JobEnd, type RunJobOptions, runJob } from './run-job.ts';
import { withoutStep } from './run-origin.ts';
import { toStepReport } from './step-report.ts';
import { logOnce, submitTraining } from './submit-training.ts';

/** A step whose rollouts may begin: what they sample from, and their scenarios. */
export interface AdmittedStep<Schema extends z.ZodType> {
  /** Counted from 0. */
  step: number;
  /** Pinned to the checkpoint that the rollouts sample from. */
  sampled: ModelHandle;
  scenarios: readonly DrawnScenario<z.output<Schema>>[];
  /** Groups that had ended before the run was interrupted, by their index. */
  kept: ReadonlyMap<number, RolloutGroup>;
  /** Called when all rollouts have ended. */
  onGathered: (rollouts: GroupsResult<z.output<Schema>>) => void;
  /**
   * Resolves when the steps before this one have trained, with the model pinned to the newest checkpoint; with null where
   * the run ends before.
   */
  turn: Promise<ModelHandle | null>;
}

export interface StepResult {
  report: StepReport;
  /** Pinned to the newest checkpoint: a new one, or the old one where there was nothing to learn. */
  model: ModelHandle;
}

/**
 * One step of a run: runs its groups of rollouts, logs them, has the service train on them, and reports. Null where the
 * run ends before it is the step's turn to train.
 * @throws the signal's reason when the run is stopped meanwhile; what was gathered is on disk then.
 */
export function runStep<Schema extends z.ZodType, Outcome>(
  context: RunContext<Schema, Outcome>,
  admitted: AdmittedStep<Schema>,
): Promise<StepResult | null> {
  const { settings, directory, signal, runId } = context;
  const { step, sampled } = admitted;
  const name = stepName(step);
  const attributes = { [attribute.step]: step, [attribute.policyVersion]: sampled.step };
  return withSpan(spanName.step, attributes, async (span) => {
    const whole = startStopwatch();
    const rollouts = await gather(context, admitted);
    admitted.onGathered(rollouts);
    const model = await admitted.turn;
    if (!model) return null;

    const clock = startStopwatch();
    const trajectories = await directory.writeTrajectories(name, rollouts.groups);
    signal.throwIfAborted();
    context.tellFailures({ name, step }, rollouts.groups);
    if (rollouts.counts.completed === 0) throw noCompletedRollouts(`step ${step + 1}`, rollouts.groups);
    const logged = rollouts.groups.map((group) => group.toTrajectoryGroup());
    const idempotencyKey = `${runId}/${name}`;
    await logOnce({ model, split: 'train', groups: logged, idempotencyKey, signal, directory, name });
    const log = clock.lap();

    const groups = rollouts.groups
      .filter(({ isTrainable }) => isTrainable)
      .map((group) => group.toTrajectoryGroup());
    const groupsWithSignal = groups.filter((group) => group.hasSignal).length;
    const config = configOf(settings, step);
    // Without an entropy bonus, equal rewards give no gradient at all: the service would refuse, or train on nothing.
    const canTrain = groupsWithSignal > 0 || (groups.length > 0 && (config?.entropy_coefficient ?? 0) > 0);
    let training: number | undefined;
    const onProgress: RunJobOptions['onProgress'] = ({ metrics: _, ...progress }) => {
      if (progress.status === 'ended') training ??= clock.lap();
      context.emit({ type: 'job', step, ...progress });
    };
    const job = canTrain
      ? await runStepJob(context, { step, model, groups, config, trajectories, onProgress })
      : null;
    training ??= clock.lap();

    const report = toStepReport({
      step,
      steps: settings.steps,
      policy: sampled.name,
      staleness: (model.step ?? 0) - (sampled.step ?? 0),
      rollouts,
      groupsWithSignal,
      job,
      prices: settings.prices,
      phases: { rollouts: rollouts.durationMs / 1000, log, training, checkpoint: clock.lap() },
      seconds: whole.total(),
      loopDelayMs: context.loopDelay.take(),
    });
    const labels = { runId: basename(directory.path), environment: settings.environment.name };
    recordStep({ ...report, staleness: report.staleness.mean }, { ...labels, model: withoutStep(model) });
    span.setAttribute(attribute.reward, report.reward);
    if (report.success !== null) span.setAttribute(attribute.success, report.success);
    return { report, model: job ? model.at(job.step) : model };
  });
}

/** Runs the groups of a step that have not ended yet, and keeps each on disk as it ends. */
function gather<Schema extends z.ZodType, Outcome>(
  { settings, rollouts, directory, emit, signal }: RunContext<Schema, Outcome>,
  { step, sampled, scenarios, kept }: AdmittedStep<Schema>,
): Promise<GroupsResult<z.output<Schema>>> {
  return runParsedGroups({
    environment: settings.environment,
    scenarios: scenarios.map(({ scenario }) => scenario),
    rolloutsPerGroup: settings.rolloutsPerGroup,
    model: sampled,
    rollouts: { ...rollouts, seed: deriveSeed(rollouts.seed, step) },
    kept,
    onGroup: async (group) => {
      // The environment's code may still hold parts of it: what is written, logged and trained on is to be the same.
      for (const { trajectory } of group.rollouts) trajectory.seal();
      // What did not complete after a stop may be its doing: such a group runs again when the run is resumed.
      const wasStopped = signal.aborted && group.rollouts.some(({ status }) => status !== 'completed');
      if (!wasStopped) await directory.keepGroup(step, group);
    },
    onProgress: (progress) => emit({ type: 'rollouts', step, ...progress }),
    signal,
  });
}

/** What a person can do about a job of a run whose outcome is not known. */
export const goOnWithResume = (mayAskAgain: boolean) =>
  'Look at the model on the service, then go on with `resume`: as it is, where the checkpoint has come meanwhile; ' +
  (mayAskAgain ? "with `lostJob: { decision: 'ask_again' }`, where there is no such job; " : '') +
  "with `lostJob: { decision: 'take_as_done' }`, to go on from the newest checkpoint.";

interface StepJob {
  step: number;
  model: ModelHandle;
  groups: readonly TrajectoryGroup[];
  config: ReturnType<typeof configOf>;
  /** File of the groups, relative to the run directory. */
  trajectories: string;
  onProgress: RunJobOptions['onProgress'];
}

/**
 * Has the service train on a step, and waits for the checkpoint. What is known of the job is on disk: a run that is
 * resumed asks with the same key and gets the same job, follows one that it knows, and creates another only where that
 * one has failed or was cancelled.
 */
async function runStepJob<Schema extends z.ZodType, Outcome>(
  { settings, directory, signal }: RunContext<Schema, Outcome>,
  { step, model, groups, config, trajectories, onProgress }: StepJob,
): Promise<JobEnd> {
  const before = await directory.readJob(step);
  const request = {
    step,
    modelId: requireModelId(model),
    policy: model.name,
    // A repeat of a request has to be the same.
    config: before ? before.config : (config ?? null),
    trajectories,
  };
  return runJob({
    kind: 'rl',
    model,
    name: `The training job of step ${step + 1}`,
    goOn: goOnWithResume,
    before,
    keep: (state) => directory.writeJob({ ...request, ...state }),
    create: (idempotencyKey, patient) =>
      submitTraining({
        model,
        groups,
        idempotencyKey,
        config: request.config ?? undefined,
        signal: patient,
      }),
    onProgress,
    timeoutMs: settings.jobTimeoutMs,
    lostJob: settings.lostJob,
    signal,
  });
}
