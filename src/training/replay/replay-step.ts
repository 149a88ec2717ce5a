import type { z } from 'zod';
import type { Environment } from '../../environment/index.ts';
import { differences as findDifferences, quoted } from '../../model/index.ts';
import type { Rollout, RolloutGroup } from '../../rollout/index.ts';
import { type OptionNames, requireOptions } from '../../util/option-names.ts';
import { RunError } from '../../util/run-error.ts';
import { readRun } from './read-run.ts';
import {
  forEachGroup,
  type ReplayedRollout,
  type ReplayOptions,
  replayGroup,
  replayNames,
  whyNotReplayed,
} from './replay-group.ts';

export interface ReplayStepOptions<Schema extends z.ZodType, Outcome> extends ReplayOptions {
  runDirectory: string;
  /** A step, counted from 0, or the name of an evaluation. */
  step: number | string;
  /** The environment of the run. */
  environment: Environment<Schema, Outcome>;
}

const replayStepNames = {
  runDirectory: 'path',
  step: true,
  environment: true,
  ...replayNames,
} satisfies OptionNames<ReplayStepOptions<z.ZodType, unknown>>;

/** A difference between a replayed rollout and its record. */
export interface ReplayDifference {
  group: number;
  rollout: number;
  attempt: number;
  what: string;
}

export interface ReplayedStep {
  /** In the order of the record, without the groups in `refused`. */
  groups: RolloutGroup[];
  /** Empty if the environment and its rewards are deterministic. */
  differences: ReplayDifference[];
  refused: { group: number; reason: string }[];
}

/**
 * Runs the rollouts of a step again and answers model calls from the record, so no model is needed. If the environment
 * and its rewards are deterministic, rewards, metrics and bodies are the same; `differences` lists what is not. Nothing
 * on disk changes.
 *
 * @throws RunError if the run has no such step or another environment; the signal's reason.
 */
export async function replayStep<Schema extends z.ZodType, Outcome>(
  options: ReplayStepOptions<Schema, Outcome>,
): Promise<ReplayedStep> {
  requireOptions('replayStep()', options, replayStepNames, ['runDirectory', 'step', 'environment']);
  const { runDirectory, step, environment } = options;
  const run = await readRun(runDirectory);
  const config = await run.config();
  if (config && config.environment !== environment.name)
    throw new RunError(
      'invalid_run_record',
      `The run ${run.path} belongs to the environment "${config.environment}", not to "${environment.name}".`,
    );
  const groups: RolloutGroup[] = [];
  const differences: ReplayDifference[] = [];
  const settings = { ...options, onUnexpectedCall: config?.onUnexpectedCall };
  const refused = await forEachGroup(run.groups(step), environment, settings, async (settings, record) => {
    const reason = whyNotReplayed(record);
    if (reason !== undefined) return reason;
    const { group, rollouts } = await replayGroup(settings, record);
    groups.push(group);
    for (const { recorded, replayed } of rollouts) {
      const { index, attempt } = recorded;
      for (const what of replayed ? compareRollouts(recorded, replayed) : [])
        differences.push({ group: record.group, rollout: index, attempt, what });
    }
    return undefined;
  });
  return { groups, differences, refused };
}

/** Maximum number of listed differences per rollout. */
const maxListed = 5;

/** Describes the differences between a replayed rollout and its record. */
function compareRollouts(recorded: Rollout, { rollout, mismatch, left }: ReplayedRollout): string[] {
  // What interrupted a rollout is not recorded, so two failed rollouts count as equal if all recorded calls were made.
  if (recorded.status === 'failed' && rollout.status === 'failed' && left === 0) return [];
  const found = findDifferences(comparable(recorded), comparable(rollout), '').map(
    ({ path, a, b }) => `${path} was ${quoted(a, 120)} and is ${quoted(b, 120)}`,
  );
  const all = [
    ...(mismatch ? [mismatch.message] : []),
    ...(left > 0 ? [`${left} recorded calls were not made`] : []),
    ...found,
  ];
  return all.length <= maxListed ? all : [...all.slice(0, maxListed), `and ${all.length - maxListed} more`];
}

/** The parts of a rollout that a replay must reproduce: not its start time and duration. */
function comparable(rollout: Rollout): object {
  const { start_time: _, ...record } = rollout.trajectory.toRecord();
  const plain: object = JSON.parse(JSON.stringify(record));
  return rollout.status === 'completed'
    ? { status: rollout.status, reward: rollout.reward, ...plain }
    : { status: rollout.status, failure: rollout.failure.code, ...plain };
}
