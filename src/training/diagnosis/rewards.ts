import { largestOf, smallestOf } from '../../util/extremes.ts';
import { sumOf } from '../../util/sums.ts';
import { type Finding, formatNumber, groupsWithSignalShare, percent, type RunSoFar } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** The policy always gives the same replies, and they do not solve the task. */
export function detectCollapse(run: RunSoFar): Finding {
  const { entropyShare, deviationShare, success: solved } = alarmThresholds.collapse;
  if (!run.hasHistory) return null;
  // Steps without a signal do not train, so they measure no entropy: use the last measured one.
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
      ? `the reward, at ${formatNumber(run.now(({ reward }) => reward) ?? 0)}, is below its best`
      : `${percent(success)} succeed`;
  return {
    message:
      `Entropy is ${formatNumber(entropy)} nats and was ${formatNumber(entropyAtStart)} at the start; the deviation of rewards is ` +
      `${formatNumber(deviation)} and was ${formatNumber(deviationAtStart)}; ${percent(signal)} of the groups have different rewards; ${reached}.`,
    lookAt:
      'Replies of the last step, which are probably almost the same. Lower the learning rate, set entropy_coefficient ' +
      'or kl_penalty_coef, raise the temperature, and continue from an earlier checkpoint.',
  };
}

/** Used without the metric `success`: a reward well below the run's best means that the task is not solved. */
function hasFallen(run: RunSoFar, deviationAtStart: number): boolean {
  const rewards = run.rewards().map(({ reward }) => reward);
  const now = rewards.at(-1) ?? 0;
  return largestOf(rewards) - now > deviationAtStart / 2;
}

/** The training reward rises while the validation falls: overfitting, or a reward that can be gamed. */
export function detectRewardUpValidationDown(run: RunSoFar): Finding {
  const { evaluations: minEvaluations, share } = alarmThresholds.rewardUpValidationDown;
  const falling = fallingEnd(run.evaluations);
  const [first, last] = [falling[0], falling.at(-1)];
  if (!first || !last || falling.length < minEvaluations) return null;
  const rewards = run.rewards();
  const range =
    largestOf(rewards.map(({ reward }) => reward)) - smallestOf(rewards.map(({ reward }) => reward));
  if (!(range > 0)) return null;
  const before = rewards.findLast(({ step }) => step < first.step) ?? rewards[0];
  const now = rewards.at(-1);
  if (!before || !now) return null;
  const fall = first.reward - last.reward;
  const rise = now.reward - before.reward;
  if (fall < share * range || rise < share * range) return null;
  return {
    message:
      `The validation fell from ${formatNumber(first.reward)} to ${formatNumber(last.reward)} over ${falling.length} evaluations, while ` +
      `the training reward rose from ${formatNumber(before.reward)} to ${formatNumber(now.reward)}.`,
    lookAt:
      'Trajectories with high rewards: what do they do that the reward should not pay for? Or there are too few ' +
      'scenarios: add some, stop earlier, or set kl_penalty_coef. `keepCheckpoints: { newest, best }` keeps the ' +
      'checkpoints with the best validations.',
  };
}

/** The longest run of falling evaluations at the end. */
function fallingEnd(evaluations: RunSoFar['evaluations']): RunSoFar['evaluations'] {
  let from = evaluations.length - 1;
  while (from > 0 && (evaluations[from - 1]?.reward ?? 0) > (evaluations[from]?.reward ?? 0)) from--;
  return evaluations.slice(Math.max(0, from));
}

/** The reward rises but success does not: the reward pays for something else. */
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
      `The training reward rose from ${formatNumber(first.reward)} to ${formatNumber(last.reward)} between the first and the last ` +
      `quarter of ${run.steps} steps, while ${percent(first.success)} and ${percent(last.success)} of the rollouts succeeded.`,
    lookAt:
      'Trajectories with a high reward and no success: what are they paid for? Remove that part of the reward, limit ' +
      'it, or give success more weight. If that part should come first, such as a format, success should follow soon.',
  };
}

/** Within groups, rollouts without success earn more than those with it: the reward asks for something else. */
export function detectRewardAgainstSuccess(run: RunSoFar): Finding {
  const { groups, share } = alarmThresholds.rewardAgainstSuccess;
  const sum = (figure: 'mixed' | 'againstSuccess') =>
    sumOf(run.recent, ({ comparison }) => comparison?.[figure] ?? 0);
  const [mixed, against] = [sum('mixed'), sum('againstSuccess')];
  if (mixed < groups || against < share * mixed) return null;
  return {
    message: `In ${against} of the last ${mixed} groups with both, the rollouts without success earned more than those with it.`,
    lookAt:
      'Such a group: `martingale show --step N --group G`, or its panel in `martingale view`. Compare the parts of the ' +
      'reward with the scenario: one of them may read the wrong field, or `success` does.',
  };
}

interface Figures {
  reward: number;
  deviation: number;
  success: number;
  rollouts: number;
}

/** Means over the steps from `begin` to before `end`; null if a step lacks the metric `success`. */
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
