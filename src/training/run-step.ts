/*
 * What always holds of a step:
 * - A group is in the journal before it is trained on or logged, and nothing changes it after that.
 * - Jobs begin when all groups have ended and all earlier steps have trained, never sooner; one for each learner.
 * - Groups are logged once, also if their job fails; no job waits for the log.
 * - A step without a completed rollout fails the run; a learner without a signal keeps its checkpoint.
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
import { GroupSender } from './group-sender.ts';
import type { RunContext } from './run-context.ts';
import { stepName } from './run-files.ts';
import { toStepReport } from './step-report.ts';
import { type TrainedLearner, trainLearners } from './train-learners.ts';

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
  learners: readonly TrainedLearner[];
}

/**
 * One step of a run: runs its groups, trains the learners on them, and makes the report. Returns null if the run ends
 * before the step may train.
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

    signal.throwIfAborted();
    run.reportFailures({ name: stepName(step), step }, rollouts.groups);
    if (rollouts.counts.completed === 0) throw noCompletedRollouts(`step ${step}`, rollouts.groups);

    const { model } = run.learners[0];
    const ofStep = { step, ended: rollouts.groups, sender };
    const { learners, policy, figures, phases } = await trainLearners(run, ofStep);
    const report = toStepReport({
      step,
      steps: settings.steps,
      policy: sampled.name,
      staleness: (model.step ?? 0) - (sampled.step ?? 0),
      rollouts,
      figures,
      groupsWithSignal: policy.groupsWithSignal,
      job: policy.job,
      prices: settings.prices,
      phases: { rollouts: rollouts.durationMs / 1000, ...phases },
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
    return { report, learners };
  });
  return ended.finally(() => sender.end());
}

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
      const journaled = directory.appendToJournal(step, group);
      sender.begin(group, journaled);
      await journaled;
    },
    onProgress: (progress) => emit({ type: 'rollouts', step, ...progress }),
    signal,
  });
}
