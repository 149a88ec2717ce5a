import { type Finding, formatNumber, percent, type RunSoFar, stepsOf } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

const mismatchAdvice =
  'The same weights must give the same probabilities in both. Compare templates and token ids, the precision of ' +
  'sampler and trainer, and temperature, masks and penalties: what shaped the sampling belongs into training.';

/** Difference between sampler and trainer in nats; null if they had different weights. */
function difference({ newest: { staleness, logprobDifference } }: RunSoFar): number | null {
  return staleness.max === 0 ? logprobDifference : null;
}

/** Sampler and trainer disagree about the probability of sampled tokens, so training does not fit what was sampled. */
export function detectMismatch(run: RunSoFar): Finding {
  const found = difference(run);
  if (found === null || found <= alarmThresholds.mismatch.wrong) return null;
  return {
    message: `Log-probabilities of sampler and trainer differ by up to ${formatNumber(found)} nats although both had the same weights.`,
    lookAt: mismatchAdvice,
  };
}

/** Sampler and trainer differ by more than 32-bit rounding explains. */
export function detectNotableMismatch(run: RunSoFar): Finding {
  const { notable, wrong } = alarmThresholds.mismatch;
  const found = difference(run);
  if (found === null || found <= notable || found > wrong) return null;
  return {
    message: `Log-probabilities of sampler and trainer differ by up to ${formatNumber(found)} nats with the same weights: usual for 16-bit weights, much for 32-bit ones.`,
    lookAt: mismatchAdvice,
  };
}

/** The policy is so far from the one that sampled that much of the data has no effect. */
export function detectClipped(run: RunSoFar): Finding {
  const share = run.now(({ clippedShare }) => clippedShare) ?? 0;
  if (share <= alarmThresholds.clipped.share) return null;
  const stale = run.now(({ staleness }) => staleness.mean) ?? 0;
  return {
    message: `The importance ratio of ${percent(share)} of the tokens was clipped, masked or capped; groups were ${formatNumber(stale)} checkpoints old.`,
    lookAt:
      stale > 0
        ? 'Staleness first: lower its bound, or train faster. Then the learning rate.'
        : 'The learning rate and the number of gradient steps a job takes on the same data: lower either.',
  };
}

/** Groups are trained on many checkpoints after they were sampled. */
export function detectStale(run: RunSoFar): Finding {
  const { shareOfBound, withoutBound } = alarmThresholds.stale;
  const { stalenessBound: bound, newest } = run;
  const mean = run.now(({ staleness }) => staleness.mean) ?? 0;
  const seen = `Groups were ${formatNumber(mean)} checkpoints old in the mean of the last ${stepsOf(run.recent)}, and ${newest.staleness.max} at most in this one`;
  const lookAt =
    'What is slow: phases of the reports. Where jobs are, gather fewer groups at a time or give them more hardware; ' +
    'where few rollouts take very long, lower their limits.';
  if (newest.staleness.max > (bound ?? withoutBound))
    return {
      message: `${seen}${bound === undefined ? '' : `: more than the bound of ${bound}`}.`,
      lookAt,
    };
  if (bound === undefined || bound < 2 || run.recent.length < alarmThresholds.recentSteps) return null;
  return mean > shareOfBound * bound
    ? { message: `${seen}: close to the bound of ${bound} all the time.`, lookAt }
    : null;
}

/** Calls have their own rewards, but the service trained on the trajectory's reward. */
export function detectCreditUnused({ newest }: RunSoFar): Finding {
  if (newest.credit !== 'not_confirmed') return null;
  return {
    message: 'Calls were credited with rewards of their own, and the job did not say that it used them.',
    lookAt:
      "Whether the service knows `credited_reward`. If not, each call trains on its trajectory's whole reward, and " +
      'the environment had better have no `credit`.',
  };
}
