import { LearningError } from './datum.ts';

export interface AdvantageOptions {
  /** Divide by the group's standard deviation. */
  scaleRewards: boolean;
  /** b in [-1, 1]: above 0 multiplies negative advantages by (1 - b), below 0 positive ones by (1 + b). */
  advantageBalance: number;
}

/** Keeps the quotient finite where a group's rewards hardly differ. */
const scaleFloor = 1e-6;

/**
 * Rewards closer to their mean than this, relative to the largest of them (or to 1 if that is less), are equal
 * but for the rounding of the sums they are made of. Without the tolerance such residue trains, and an optimizer
 * that normalises gradients, as Adam does, makes full steps of it.
 */
const rewardTolerance = 1e-12;

/** Beyond this the numbers that an engine computes in overflow. No environment's reward means so much. */
export const largestReward = 1e30;

/** A trajectory of a group, as its choices are credited. */
export interface CreditedTrajectory {
  reward: number;
  /** For each choice: what it is credited with, or null where it has the trajectory's reward. */
  credits: readonly (number | null)[];
}

/**
 * Advantages of the choices of one group, for each trajectory in the order of its `credits`. The return of a choice
 * is its credit, else the trajectory's reward; a trajectory without choices has its reward as the only return. The
 * baseline is the mean over the trajectories of the mean over each one's returns, so that a trajectory counts the
 * same whatever its number of choices; the deviation is the root of the mean over the trajectories of the mean over
 * each one's squared distances from the baseline.
 *
 * A = return - baseline, divided by (deviation + 1e-6) with `scaleRewards`, then balanced (see `AdvantageOptions`). An
 * advantage within rounding of 0 is exactly 0, so a group of equal rewards, or of one, has nothing but zeros. Without
 * credits this is GRPO's formula (Shao et al. 2024, arXiv:2402.03300, section 4.1.1) with the population's deviation.
 *
 * @throws LearningError `reward_not_finite` where a reward or credit is NaN or infinite, `reward_too_large` beyond 1e30.
 */
export function choiceAdvantages(
  trajectories: readonly CreditedTrajectory[],
  options: AdvantageOptions,
): number[][] {
  const centred = centre(trajectories);
  const scale = options.scaleRewards ? rootMeanSquare(centred) + scaleFloor : 1;
  return centred.map((values) => values.map((value) => balance(value / scale, options.advantageBalance)));
}

/** Population standard deviation of the rewards of one group; exactly 0 where they are equal within rounding. */
export function groupStandardDeviation(rewards: readonly number[]): number {
  return rootMeanSquare(centre(rewards.map((reward) => ({ reward, credits: [] }))));
}

/** Whether any choice of the group has an advantage: whether the returns differ by more than rounding. */
export function hasSignal(trajectories: readonly CreditedTrajectory[]): boolean {
  return centre(trajectories).some((values) => values.some((value) => value !== 0));
}

/** Each return's distance from the baseline; exactly 0 within rounding. */
function centre(trajectories: readonly CreditedTrajectory[]): number[][] {
  const returns = trajectories.map(({ reward, credits }, index) => {
    check(reward, `Trajectory ${index} of the group has the reward ${reward}`);
    credits.forEach((credit, choice) => {
      if (credit !== null)
        check(credit, `Choice ${choice} of trajectory ${index} is credited with ${credit}`);
    });
    return credits.length === 0 ? [reward] : credits.map((credit) => credit ?? reward);
  });
  const first = returns[0]?.[0] ?? 0;
  // Differences from one of the rewards lose fewer digits than the rewards' own sum.
  const total = returns.reduce((sum, values) => sum + meanOf(values.map((value) => value - first)), 0);
  const baseline = first + total / returns.length;
  const largest = returns.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  return returns.map((values) =>
    values.map((value) => {
      const difference = value - baseline;
      return Math.abs(difference) <= rewardTolerance * largest ? 0 : difference;
    }),
  );
}

function check(value: number, what: string): void {
  if (!Number.isFinite(value))
    throw new LearningError(
      'reward_not_finite',
      `${what}. Give every trajectory a finite number, or leave it out.`,
    );
  if (Math.abs(value) > largestReward)
    throw new LearningError(
      'reward_too_large',
      `${what}, and computing overflows beyond ${largestReward}. Scale the rewards down.`,
    );
}

function rootMeanSquare(centred: readonly (readonly number[])[]): number {
  if (centred.length === 0) return 0;
  const total = centred.reduce((sum, values) => sum + meanOf(values.map((value) => value * value)), 0);
  return Math.sqrt(total / centred.length);
}

/** Of equal values that value itself, so that it does not matter how many choices share a reward. */
function meanOf(values: readonly number[]): number {
  const [first = 0] = values;
  if (values.every((value) => value === first)) return first;
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function balance(advantage: number, by: number): number {
  if (advantage === 0) return 0;
  const factor = advantage < 0 ? Math.min(1, 1 - by) : Math.min(1, 1 + by);
  // A factor of 0 would leave a negative zero behind.
  return factor === 0 ? 0 : advantage * factor;
}

/**
 * What `normalize_advantages` divides the advantages of a batch by, after balancing: the mean over its trainable
 * tokens of |A| * w, where w is a token's weight, by which every trajectory weighs the same, scaled to mean 1. That is
 * the mean of |A| over the trajectories: of those that train, so those with advantage 0 are left out. The |A| of a
 * trajectory whose choices are credited is the mean over its decisions.
 *
 * @param advantages Of the trajectories that hold a decision. 1 where none of them has an advantage.
 */
export function advantageScale(advantages: readonly number[]): number {
  const training = advantages.filter((advantage) => advantage !== 0);
  if (training.length === 0) return 1;
  return training.reduce((sum, advantage) => sum + Math.abs(advantage), 0) / training.length;
}
