import { type Finding, groupsWithSignalShare, percent, type RunSoFar, shown } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** The policy always says the same, and that is not yet what solves the task. */
export function detectCollapse(run: RunSoFar): Finding {
  const { entropyShare, deviationShare, success: solved } = alarmThresholds.collapse;
  if (!run.hasHistory) return null;
  // Steps without a signal train nothing and measure none: the last that did speaks for them.
  const entropy = run.now(({ entropy }) => entropy) ?? run.last(({ entropy }) => entropy);
  const entropyAtStart = run.start(({ entropy }) => entropy);
  const deviation = run.now(({ rewardDeviation }) => rewardDeviation) ?? 0;
  const deviationAtStart = run.start(({ rewardDeviation }) => rewardDeviation) ?? 0;
  if (entropy === null || entropyAtStart === null || entropy >= entropyShare * entropyAtStart) return null;
  const signal = run.now(groupsWithSignalShare) ?? 0;
  if (deviation > deviationShare * deviationAtStart && signal > alarmThresholds.noSignal.groups) return null;
  const success = run.now(({ success }) => success);
  if (success === null ? !hasFallen(run, deviationAtStart) : success >= solved) return null;
  const reached =
    success === null
      ? `the reward, at ${shown(run.now(({ reward }) => reward) ?? 0)}, is below its best`
      : `${percent(success)} succeed`;
  return {
    message:
      `Entropy is ${shown(entropy)} nats and was ${shown(entropyAtStart)} at the start; the deviation of rewards is ` +
      `${shown(deviation)} and was ${shown(deviationAtStart)}; ${percent(signal)} of the groups differ in theirs; ${reached}.`,
    lookAt:
      'Replies of the last step: they will be nearly the same. Lower the learning rate, set entropy_coefficient or ' +
      'kl_penalty_coef, raise the temperature, and go on from an earlier checkpoint.',
  };
}

/** Without a metric `success`, what is solved is not known: a reward well below the run's best is not. */
function hasFallen(run: RunSoFar, deviationAtStart: number): boolean {
  const rewards = run.rewards().map(({ reward }) => reward);
  const now = rewards.at(-1) ?? 0;
  return Math.max(...rewards) - now > deviationAtStart / 2;
}
