/*
 * What always holds of a step:
 * - A group is in the journal before it is trained on or logged, and nothing changes it after that.
 * - The job begins when all groups have ended and all earlier steps have trained, never sooner.
 * - Groups are logged once, also if their job fails; the job does not wait for the log.
 * - A step without a completed rollout fails the run; one without a signal keeps its checkpoint.
 * - When the step ends, in whatever way, its jobs and its log have ended too.
 */
import { basename } from 'node:path';
import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import type { DrawnScenario } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { StepReport } from '../progress/index.ts';
import {
  type GroupsResult,
  type RolloutGroup,
  runParsedGroups,
  type SeatModels,
  trajectoriesOf,
} from '../rollout/index.ts';
import { attribute, recordStep, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { startStopwatch } from '../util/stopwatch.ts';
import { noCompletedRollouts } from './errors.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import { GroupSender } from './group-sender.ts';
import { configOf } from './job-config.ts';
import { type TrainedLearners, trainLearners } from './learners.ts';
import type { RunContext } from './run-context.ts';
import { stepName } from './run-files.ts';
import type { RunJobOptions } from './run-job.ts';
import { groupsToLog, isOfPolicy } from './seats.ts';
import { runStepJob } from './step-job.ts';
import { rolloutFigures, toStepReport } from './step-report.ts';
import { logOnce } from './submit-training.ts';
import { recordTokens } from './trained-tokens.ts';

/** A step whose rollouts may start. */
export interface AdmittedStep<Schema extends z.ZodType> {
  /** Counted from 0. */
  step: number;
  /** Pinned to the checkpoint that the rollouts sample from. */
  sampled: ModelHandle;
  scenarios: readonly DrawnScenario<z.output<Schema>>[];
  /** Who plays the seats that the model does not play. */
  seats: SeatModels | undefined;
  /** Groups that ended before the run was interrupted, by index. */
  kept: ReadonlyMap<number, RolloutGroup>;
  /** Called when all rollouts have ended. */
  onRollouts: (rollouts: GroupsResult<z.output<Schema>>) => void;
  /** Resolves with true when all earlier steps have trained, or with false if the run ends before that. */
  mayTrain: Promise<boolean>;
}

export interface StepResult {
  report: StepReport;
  /** Pinned to the newest checkpoint: a new one, or the old one if there was nothing to train on. */
  model: ModelHandle;
  /** The step of each further learner's newest checkpoint. */
  learners: TrainedLearners;
}

/**
 * One step of a run: runs its groups, runs a training job on them, logs them meanwhile, and makes the report. Returns
 * null if the run ends before the step may train.
 * @throws the signal's reason if the run is stopped; finished groups are on disk then.
 */
export function runStep<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
  admitted: AdmittedStep<Schema>,
): Promise<StepResult | null> {
  const { settings, directory, signal } = run;
  const { step, sampled } = admitted;
  const attributes = { [attribute.step]: step, [attribute.policyVersion]: sampled.step };
  const sender = new GroupSender(run, step);
  const ended = withSpan(spanName.step, attributes, async (span) => {
    const whole = startStopwatch();
    const ran = await runRollouts(run, admitted, sender);
    const onReplaced = (group: RolloutGroup) => directory.appendToJournal(step, group);
    const rollouts = await sender.settle(ran, onReplaced).catch((error) => {
      // They count also if the run ends here.
      admitted.onRollouts(ran);
      throw error;
    });
    admitted.onRollouts(rollouts);
    if (!(await admitted.mayTrain)) return null;

    const clock = startStopwatch();
    const { model } = run;
    signal.throwIfAborted();
    run.reportFailures({ name: stepName(step), step }, rollouts.groups);
    if (rollouts.counts.completed === 0) throw noCompletedRollouts(`step ${step}`, rollouts.groups);

    // A seat is compared with the same seat only, so each is a group of its own.
    const allTrainable = rollouts.groups.flatMap((group) => group.bySeat()).filter(isForTraining);
    const trainable = allTrainable.filter(isOfPolicy);
    const groups = trainable.map((group) => group.toTrajectoryGroup());
    const groupsWithSignal = groups.filter((group) => group.hasSignal).length;
    const config = configOf(settings, step);
    // Without an entropy bonus, equal rewards give no gradient: the service would reject the job, or train on nothing.
    const canTrain = groupsWithSignal > 0 || (groups.length > 0 && (config?.entropy_coefficient ?? 0) > 0);
    let training: number | undefined;
    const accepted = Promise.withResolvers<void>();
    const onProgress: RunJobOptions['onProgress'] = ({ metrics: _, ...progress }) => {
      accepted.resolve();
      if (progress.status === 'ended') training ??= clock.lap();
      run.emit({ type: 'job', step, ...progress });
    };
    const sent = (jobSignal: AbortSignal) => sender.groupsFor(model, trainable, jobSignal);
    const running = canTrain
      ? runStepJob(run, { step, model, groups: sent, onProgress })
      : Promise.resolve(null);
    const others = trainLearners(run, { step, groups: allTrainable, sender });
    others.catch(() => undefined);
    running.catch(() => undefined).then(() => accepted.resolve());
    // The job does not need the log, and the groups are in the journal, so this happens while the job trains. Groups are
    // also logged if their job fails.
    const recorded = accepted.promise.then(async () => {
      await recordGroups(run, { step, ended: rollouts.groups, sender });
      return rolloutFigures(rollouts.groups);
    });
    recorded.catch(() => undefined);
    // Nothing may go on after the step has ended.
    const afterAll = async (error: unknown): Promise<never> => {
      await Promise.allSettled([recorded, others]);
      throw error;
    };
    const ended = await running.catch(afterAll);
    const job = ended?.outcome ?? null;
    training ??= job ? clock.lap() : 0;
    const checkpoint = clock.lap();
    const jobId = job && !job.untrained ? ended?.jobId : undefined;
    const groupsOfJob = trainable.filter((_, at) => (groups[at]?.trajectories.length ?? 0) > 0);
    if (jobId !== undefined) await recordTokens(run, { step, jobId, groups: groupsOfJob }).catch(afterAll);
    const figures = await recorded.catch(afterAll);
    const learners = await others;
    const log = clock.lap();

    const report = toStepReport({
      step,
      steps: settings.steps,
      policy: sampled.name,
      staleness: (model.step ?? 0) - (sampled.step ?? 0),
      rollouts,
      figures,
      groupsWithSignal,
      job,
      prices: settings.prices,
      phases: { rollouts: rollouts.durationMs / 1000, log, training, checkpoint },
      seconds: whole.total(),
      ...run.loopDelay.take(),
    });
    const labels = { runId: basename(directory.path), environment: settings.environment.name };
    recordStep(
      { ...report, staleness: report.staleness.mean },
      { ...labels, model: withoutStep(model.name) },
    );
    span.setAttribute(attribute.reward, report.reward);
    if (report.success !== null) span.setAttribute(attribute.success, report.success);
    return { report, model: job ? model.at(job.step) : model, learners };
  });
  return ended.finally(() => sender.end());
}

/** A seat that made no call in any rollout has nothing to train on. */
const isForTraining = ({ isTrainable, trajectories }: RolloutGroup): boolean =>
  isTrainable && trajectories.length > 0;

/** Runs the unfinished groups of a step, and writes each to disk when it ends. */
function runRollouts<Schema extends z.ZodType, Outcome>(
  { settings, rollouts, directory, emit, signal }: RunContext<Schema, Outcome>,
  { step, sampled, scenarios, kept, seats }: AdmittedStep<Schema>,
  sender: GroupSender<Schema, Outcome>,
): Promise<GroupsResult<z.output<Schema>>> {
  for (const group of kept.values()) sender.begin(group);
  return runParsedGroups({
    ...rollouts,
    seats,
    environment: settings.environment,
    scenarios: scenarios.map(({ scenario }) => scenario),
    rolloutsPerGroup: settings.rolloutsPerGroup,
    model: sampled,
    seed: deriveSeed(rollouts.seed, step),
    kept,
    onGroup: async (group) => {
      // Sealed, so that code of the environment cannot make written, logged and trained data differ.
      for (const trajectory of group.rollouts.flatMap(trajectoriesOf)) trajectory.seal();
      // Rollouts may have failed because the run was stopped, so such a group runs again on resume.
      const wasStopped = signal.aborted && group.rollouts.some(({ status }) => status !== 'completed');
      if (wasStopped) return;
      await directory.appendToJournal(step, group);
      sender.begin(group);
    },
    onProgress: (progress) => emit({ type: 'rollouts', step, ...progress }),
    signal,
  });
}

/** Writes the groups of a step to its file and logs them. */
async function recordGroups<Schema extends z.ZodType, Outcome>(
  { model, directory, state, signal }: RunContext<Schema, Outcome>,
  {
    step,
    ended,
    sender,
  }: { step: number; ended: readonly RolloutGroup[]; sender: GroupSender<Schema, Outcome> },
): Promise<void> {
  const name = stepName(step);
  await directory.writeTrajectories(name, ended, step);
  const idempotencyKey = `${state.runId}/${name}`;
  // A run that is stopped when its job has ended keeps the step, so its log is finished too.
  await withGrace(signal, stopGraceMs, async (graceSignal) => {
    const groups = await sender.groupsFor(model, groupsToLog(ended), graceSignal);
    return logOnce({ model, split: 'train', groups, idempotencyKey, signal: graceSignal, directory, name });
  });
}
