import type { z } from 'zod';
import {
  RolloutGroup,
  type RunGroupsOptions,
  runParsedGroups,
  wholeRolloutSettings,
} from '../rollout/index.ts';
import type { EvaluationDirectory } from './evaluation-directory.ts';

interface Kept {
  /** Null where nothing is kept. */
  kept: EvaluationDirectory | null;
  /** Whether groups of the folder with a rollout that did not complete are run again. */
  rerunFailed: boolean;
  /** Called with each group as it ends, and with those that the folder has. */
  onGroup?: ((group: RolloutGroup) => void) | undefined;
}

const completedOf = ({ rollouts }: RolloutGroup) =>
  rollouts.filter(({ status }) => status === 'completed').length;

/**
 * Runs the groups that the folder does not have yet, or not whole, and keeps each there as it ends. In order of the
 * scenarios.
 */
export async function gatherGroups<Schema extends z.ZodType, Outcome>(
  options: Omit<RunGroupsOptions<Schema, Outcome>, 'scenarios'>,
  scenarios: readonly z.output<Schema>[],
  { kept, rerunFailed, onGroup }: Kept,
): Promise<RolloutGroup<z.output<Schema>>[]> {
  const { environment, model, rolloutsPerGroup, onProgress, signal } = options;
  const finished: ReadonlyMap<number, RolloutGroup> = kept?.finished ?? new Map();
  const staying = new Map(
    [...finished].filter(([, group]) => !rerunFailed || completedOf(group) >= rolloutsPerGroup),
  );
  /** The group of the folder, if the one that ran again is no better: whatever failed it may do so again, and worse. */
  const betterBefore = (group: RolloutGroup): RolloutGroup | undefined => {
    const before = finished.get(group.index);
    return before && completedOf(group) <= completedOf(before) ? before : undefined;
  };
  for (const group of staying.values()) onGroup?.(group);
  const { groups } = await runParsedGroups({
    environment,
    scenarios,
    rolloutsPerGroup,
    model,
    rollouts: wholeRolloutSettings(options, rolloutsPerGroup),
    kept: staying,
    onGroup: async (group) => {
      const before = betterBefore(group);
      // What did not complete after a stop may be its doing: such a group is run again.
      const wasStopped = signal?.aborted && completedOf(group) < group.rollouts.length;
      if (kept && !before && !wasStopped) await kept.append(group);
      onGroup?.(before ?? group);
    },
    onProgress,
    signal,
  });
  return groups.map((group) => {
    const before = betterBefore(group);
    if (!before) return group;
    const { index, scenario } = group;
    const { rollouts, droppedBecause } = before;
    return new RolloutGroup({ index, scenario, rollouts, droppedBecause });
  });
}
