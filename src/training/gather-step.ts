import type { z } from 'zod';
import type { DrawnScenario } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { countRollouts, type GroupsResult, RolloutGroup, runGroup } from '../rollout/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import type { RunContext } from './run-context.ts';
import { trainDefaults } from './train-defaults.ts';

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
