import { type Finding, percent, type RunSoFar, shown } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** The policy earns more and succeeds no more often: the reward pays for something else. */
export function detectRewardUpSuccessFlat(run: RunSoFar): Finding {
  const { steps, rise, success, error, solved } = alarmThresholds.rewardUpSuccessFlat;
  if (run.steps < steps) return null;
  const quarter = Math.floor(run.steps / 4);
  const first = figuresOf(run, 0, quarter);
  const last = figuresOf(run, run.steps - quarter, run.steps);
  if (!first || !last || last.success >= solved) return null;
  if (first.deviation === 0 || last.reward - first.reward < rise * first.deviation) return null;
  if (last.success - first.success > success) return null;
  if (Math.hypot(errorOf(first), errorOf(last)) > error) return null;
  return {
    message:
      `The training reward rose from ${shown(first.reward)} to ${shown(last.reward)} between the first and the last ` +
      `quarter of ${run.steps} steps, while ${percent(first.success)} and ${percent(last.success)} of the rollouts succeeded.`,
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

/** Means of the steps from `begin` up to, and without, `end`; null where one has no metric `success`. */
function figuresOf(run: RunSoFar, begin: number, end: number): Figures | null {
  const [before, after] = [run.totals(begin), run.totals(end)];
  const steps = end - begin;
  if (after.judged - before.judged < steps) return null;
  return {
    reward: (after.reward - before.reward) / steps,
    deviation: (after.rewardDeviation - before.rewardDeviation) / steps,
    success: (after.success - before.success) / steps,
    rollouts: after.completed - before.completed,
  };
}

/** Standard error of a share: sqrt(p (1 - p) / n). */
const errorOf = ({ success, rollouts }: Figures): number =>
  Math.sqrt(Math.max(0, success * (1 - success)) / Math.max(1, rollouts));
