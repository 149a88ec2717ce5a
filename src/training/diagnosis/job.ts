import { type Detector, type Finding, formatNumber, percent, type RunSoFar, stepsOf } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Sampler and trainer differ about the probability of sampled tokens by more than `above`, in nats. */
const detectMismatch =
  (above: number, upTo: number, what: string): Detector =>
  ({ newest: { staleness, logprobDifference: difference } }) => {
    // Only the same weights must agree.
    if (staleness.max > 0 || difference === null || difference <= above || difference > upTo) return null;
    return {
      message: `Log-probabilities of sampler and trainer differ by up to ${formatNumber(difference)} nats ${what}`,
      lookAt:
        'The same weights must give the same probabilities in both. Compare templates and token ids, the precision ' +
        "of sampler and trainer, and temperature, masks and penalties: training must use the sampler's.",
    };
  };

const { notable, wrong } = alarmThresholds.mismatch;

/** One detector for each degree, so that a mismatch that becomes wrong raises a new alarm. */
export const mismatchDetectors: readonly Detector[] = [
  detectMismatch(wrong, Number.POSITIVE_INFINITY, 'although both had the same weights.'),
  detectMismatch(notable, wrong, 'with the same weights: usual for 16-bit weights, much for 32-bit ones.'),
];

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
        : 'The learning rate, or the number of gradient steps that a job takes on the same data: lower one of them.',
  };
}

/** Groups are trained on many checkpoints after they were sampled. */
export function detectStale(run: RunSoFar): Finding {
  const { shareOfBound, withoutBound } = alarmThresholds.stale;
  const { stalenessBound: bound, newest } = run;
  const mean = run.now(({ staleness }) => staleness.mean) ?? 0;
  const seen = `Groups were ${formatNumber(mean)} checkpoints old on average over the last ${stepsOf(run.recent)}, and at most ${newest.staleness.max} in this one`;
  const lookAt =
    '`phases` of the reports, to find what is slow. If jobs are, run fewer groups per step or use more hardware; if a ' +
    'few rollouts take very long, lower their limits.';
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
    message: 'Calls have their own rewards, but the job did not confirm that it used them.',
    lookAt:
      "Whether the service supports `credited_reward`. If not, each call trains on its trajectory's whole reward: remove " +
      '`credit` from the environment.',
  };
}
