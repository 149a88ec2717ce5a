import type { RunListener } from '../progress/index.ts';
import { failureKinds, type RolloutGroup } from '../rollout/index.ts';

/** Of one step or validation, and of a run. */
const mostKinds = { together: 3, inRun: 50 };
const longestMessage = 1000;

/** What the rollouts were of: the name of their file in `trajectories/`, and the step where it is no validation. */
interface Told {
  name: string;
  step?: number;
}

/** Says why rollouts failed, each kind of failure once a run. */
export type FailureTeller = (of: Told, groups: readonly RolloutGroup[]) => void;

export function failureTeller(emit: RunListener): FailureTeller {
  const told = new Set<string>();
  return (of, groups) => {
    const failed = groups.map(({ rollouts }) => ({
      rollouts: rollouts.filter(({ status }) => status === 'failed'),
    }));
    const kinds = failureKinds(failed)
      .filter(({ code, at }) => told.size < mostKinds.inRun && !told.has(`${code} ${at}`))
      .slice(0, mostKinds.together)
      .map((kind) => ({ ...kind, message: kind.message.slice(0, longestMessage) }));
    for (const { code, at } of kinds) told.add(`${code} ${at}`);
    if (kinds.length > 0) emit({ type: 'failures', ...of, kinds });
  };
}
