import type { Alarm } from '../../progress/index.ts';
import type { RolloutCounts, RolloutGroup } from '../../rollout/index.ts';
import { percent } from './run-so-far.ts';
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
  const failuresByCode = new Map<string, number>();
  for (const rollout of groups.flatMap(({ rollouts }) => rollouts)) {
    if (rollout.status === 'completed') continue;
    failuresByCode.set(rollout.failure.code, (failuresByCode.get(rollout.failure.code) ?? 0) + 1);
  }
  const [code, count] = [...failuresByCode].sort(([, a], [, b]) => b - a)[0] ?? ['unknown', 0];
  const scored = groups.filter(({ trajectories }) => trajectories.length > 0).length;
  return {
    kind: 'failures',
    step: Math.max(0, finishedSteps - 1),
    message:
      `${percent(share)} of the rollouts of the validation "${name}" failed, most often with ${code} (${count}): ` +
      `${scored} of ${groups.length} scenarios have a score.`,
    lookAt:
      `The \`failures\` in trajectories/${name}.jsonl of the run directory. The scenarios that are left are no fair ` +
      'sample: do not compare it with validations of all. ' +
      (canRank({ failedShare: share })
        ? '`keepCheckpoints` and `earlyStop` take it as it is.'
        : '`keepCheckpoints` and `earlyStop` leave it out.'),
  };
}
