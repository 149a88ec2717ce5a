import { type Finding, type RunSoFar, shown } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** The run gets better at its training scenarios and worse at the others, or better at the reward alone. */
export function detectRewardUpValidationDown(run: RunSoFar): Finding {
  const { evaluations: least, share } = alarmThresholds.rewardUpValidationDown;
  const falling = fallingEnd(run.evaluations);
  const [first, last] = [falling[0], falling.at(-1)];
  if (!first || !last || falling.length < least) return null;
  const rewards = run.rewards();
  const range =
    Math.max(...rewards.map(({ reward }) => reward)) - Math.min(...rewards.map(({ reward }) => reward));
  if (!(range > 0)) return null;
  const before = rewards.findLast(({ step }) => step < first.step) ?? rewards[0];
  const now = rewards.at(-1);
  if (!before || !now) return null;
  const fall = first.reward - last.reward;
  const rise = now.reward - before.reward;
  if (fall < share * range || rise < share * range) return null;
  return {
    message:
      `The validation fell from ${shown(first.reward)} to ${shown(last.reward)} over ${falling.length} evaluations, while ` +
      `the training reward rose from ${shown(before.reward)} to ${shown(now.reward)}.`,
    lookAt:
      'Trajectories with high rewards: what do they do that the reward should not pay? Else too few scenarios, taken ' +
      'too often: add some, stop earlier, set kl_penalty_coef. The checkpoint that was best on validation is kept ' +
      'where `keepCheckpoints` says so.',
  };
}

/** The last evaluations, each below the one before it. */
function fallingEnd(evaluations: RunSoFar['evaluations']): RunSoFar['evaluations'] {
  let from = evaluations.length - 1;
  while (from > 0 && (evaluations[from - 1]?.reward ?? 0) > (evaluations[from]?.reward ?? 0)) from--;
  return evaluations.slice(Math.max(0, from));
}
