import type { Alarm } from '../../progress/index.ts';
import { failureKinds, type RolloutCounts, type RolloutGroup } from '../../rollout/index.ts';
import { mostFrequent, percent } from './run-so-far.ts';
import { alarmThresholds, canRank } from './thresholds.ts';

interface ValidationFigures {
  name: string;
  /** Number of finished steps. */
  finishedSteps: number;
  groups: readonly RolloutGroup[];
  counts: RolloutCounts;
}

/** Share of the rollouts that did not complete; 0 if there are none. */
export const failedShareOf = ({ dispatched, completed }: RolloutCounts): number =>
  dispatched > 0 ? (dispatched - completed) / dispatched : 0;

/** The alarm if too many rollouts of a validation ended without a reward, else null. */
export function failedValidation({ name, finishedSteps, groups, counts }: ValidationFigures): Alarm | null {
  const share = failedShareOf(counts);
  if (share <= alarmThresholds.failures.share) return null;
  const codes = failureKinds(groups).map(({ code, count }) => [code, count] as const);
  const scored = groups.filter(({ trajectories }) => trajectories.length > 0).length;
  return {
    kind: 'failures',
    step: Math.max(0, finishedSteps - 1),
    message:
      `${percent(share)} of the rollouts of the validation "${name}" failed, most often with ` +
      `${mostFrequent(codes)}: ${scored} of ${groups.length} scenarios have a score.`,
    lookAt:
      `The \`failures\` in trajectories/${name}.jsonl of the run directory. The remaining scenarios are not a fair ` +
      'sample: do not compare this validation with complete ones. ' +
      (canRank({ failedShare: share })
        ? '`keepCheckpoints` and `earlyStop` still use it.'
        : '`keepCheckpoints` and `earlyStop` ignore it.'),
  };
}
