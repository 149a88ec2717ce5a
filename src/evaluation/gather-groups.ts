import type { z } from 'zod';
import { RolloutGroup, type RunGroupsOptions, runParsedGroups } from '../rollout/index.ts';
import type { EvaluationDirectory } from './evaluation-directory.ts';

interface StoredGroups {
  /** Null if nothing is stored. */
  stored: EvaluationDirectory | null;
  /** Whether stored groups with a rollout that did not complete run again. */
  rerunFailed: boolean;
  /** Called with each stored group first, then with each group that ends. */
  onGroup?: ((group: RolloutGroup) => void) | undefined;
}

const completedOf = ({ rollouts }: RolloutGroup) =>
  rollouts.filter(({ status }) => status === 'completed').length;

/**
 * Runs the groups that are not stored, or not complete, and stores each as soon as it ends. Returns all groups in the
 * order of the scenarios.
 */
export async function gatherGroups<Schema extends z.ZodType, Outcome>(
  options: Omit<RunGroupsOptions<Schema, Outcome>, 'scenarios'>,
  scenarios: readonly z.output<Schema>[],
  { stored, rerunFailed, onGroup }: StoredGroups,
): Promise<RolloutGroup<z.output<Schema>>[]> {
  const { rolloutsPerGroup, signal } = options;
  const finished: ReadonlyMap<number, RolloutGroup> = stored?.finished ?? new Map();
  const unchanged = new Map([
    ...(options.kept ?? []),
    ...[...finished].filter(([, group]) => !rerunFailed || completedOf(group) >= rolloutsPerGroup),
  ]);
  /** The stored group, if the one that ran again has no more completed rollouts: an outage may last. */
  const betterStored = (group: RolloutGroup): RolloutGroup | undefined => {
    const before = finished.get(group.index);
    return before && completedOf(group) <= completedOf(before) ? before : undefined;
  };
  for (const group of unchanged.values()) onGroup?.(group);
  const { groups } = await runParsedGroups({
    ...options,
    scenarios,
    kept: unchanged,
    onGroup: async (group) => {
      const before = betterStored(group);
      // Do not store a group that the stop may have interrupted: it runs again.
      const wasStopped = signal?.aborted && completedOf(group) < group.rollouts.length;
      if (stored && !before && !wasStopped) await stored.append(group);
      await options.onGroup?.(group);
      onGroup?.(before ?? group);
    },
  });
  return groups.map((group) => {
    const before = betterStored(group);
    if (!before) return group;
    return new RolloutGroup({ ...before, scenario: group.scenario });
  });
}
