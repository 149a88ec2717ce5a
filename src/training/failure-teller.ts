import type { RunListener } from '../progress/index.ts';
import { failureKinds, type RolloutGroup } from '../rollout/index.ts';

/** Of one step or validation, and of a run. */
const mostKinds = { together: 3, inRun: 50 };
const longestMessage = 1000;

/** Says why rollouts failed, each kind of failure once a run. `name` is that of their file in `trajectories/`. */
export type FailureTeller = (name: string, groups: readonly RolloutGroup[]) => void;

export function failureTeller(emit: RunListener): FailureTeller {
  const told = new Set<string>();
  return (name, groups) => {
    const failed = groups.map(({ rollouts }) => ({
      rollouts: rollouts.filter(({ status }) => status === 'failed'),
    }));
    const kinds = failureKinds(failed)
      .filter(({ code, at }) => told.size < mostKinds.inRun && !told.has(`${code} ${at}`))
      .slice(0, mostKinds.together)
      .map((kind) => ({ ...kind, message: kind.message.slice(0, longestMessage) }));
    for (const { code, at } of kinds) told.add(`${code} ${at}`);
    if (kinds.length > 0) emit({ type: 'failures', name, kinds });
  };
}
