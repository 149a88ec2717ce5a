import { average } from '../../evaluation/index.ts';
import { type Finding, percent, type RunSoFar, shown, sum } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** The policy earns more and succeeds no more often: the reward pays for something else. */
export function detectRewardUpSuccessFlat({ all }: RunSoFar): Finding {
  const { steps, rise, success, error, solved } = alarmThresholds.rewardUpSuccessFlat;
  if (all.length < steps) return null;
  const quarter = Math.floor(all.length / 4);
  const first = figuresOf(all.slice(0, quarter));
  const last = figuresOf(all.slice(-quarter));
  if (!first || !last || last.success >= solved) return null;
  if (first.deviation === 0 || last.reward - first.reward < rise * first.deviation) return null;
  if (last.success - first.success > success) return null;
  if (Math.hypot(errorOf(first), errorOf(last)) > error) return null;
  return {
    message:
      `The training reward rose from ${shown(first.reward)} to ${shown(last.reward)} between the first and the last ` +
      `quarter of ${all.length} steps, while ${percent(first.success)} and ${percent(last.success)} of the rollouts succeeded.`,
    lookAt:
      'Trajectories with a high reward and no success: what are they paid for? Take that part out of the reward, bound ' +
      'it, or weigh success more. Where it is meant to come first, such as a format, success should follow soon.',
  };
}

interface Figures {
  reward: number;
  deviation: number;
  success: number;
  rollouts: number;
}

/** Null where a step has no metric `success`. */
function figuresOf(reports: RunSoFar['all']): Figures | null {
  const successes = reports.flatMap(({ success }) => success ?? []);
  if (successes.length < reports.length) return null;
  return {
    reward: average(reports.map(({ reward }) => reward)),
    deviation: average(reports.map(({ rewardDeviation }) => rewardDeviation)),
    success: average(successes),
    rollouts: sum(reports.map(({ completed }) => completed)),
  };
}

/** Standard error of a share: sqrt(p (1 - p) / n). */
const errorOf = ({ success, rollouts }: Figures): number =>
  Math.sqrt(Math.max(0, success * (1 - success)) / Math.max(1, rollouts));
