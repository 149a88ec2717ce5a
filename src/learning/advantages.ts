import { LearningError } from './error.ts';

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
const largestReward = 1e30;

/**
 * Advantages of the trajectories of one group, in the order of `rewards`: A = R - mean(R), divided by
 * (population standard deviation + 1e-6) where `scaleRewards`, then balanced (see `AdvantageOptions`).
 * An advantage within rounding of 0 is exactly 0, so a group of equal rewards, or of one, has nothing but zeros.
 * The formula is GRPO's (Shao et al. 2024, arXiv:2402.03300, section 4.1.1) with the population's deviation.
 *
 * @throws LearningError `reward_not_finite` where a reward is NaN or infinite, `reward_too_large` beyond 1e30.
 */
export function groupAdvantages(rewards: readonly number[], options: AdvantageOptions): number[] {
  const centred = centre(rewards);
  const scale = options.scaleRewards ? rootMeanSquare(centred) + scaleFloor : 1;
  return centred.map((value) => balance(value / scale, options.advantageBalance));
}

/** Population standard deviation of the rewards of one group; exactly 0 where they are equal within rounding. */
export function groupStandardDeviation(rewards: readonly number[]): number {
  return rootMeanSquare(centre(rewards));
}

function centre(rewards: readonly number[]): number[] {
  rewards.forEach((reward, index) => {
    if (!Number.isFinite(reward)) {
      throw new LearningError(
        'reward_not_finite',
        `Trajectory ${index} of the group has the reward ${reward}. Give every trajectory a finite number, or leave it out.`,
      );
    }
    if (Math.abs(reward) > largestReward)
      throw new LearningError(
        'reward_too_large',
        `Trajectory ${index} of the group has the reward ${reward}, and computing overflows beyond ${largestReward}. Scale the rewards down.`,
      );
  });
  const first = rewards[0] ?? 0;
  // Differences from one of the rewards lose fewer digits than the rewards' own sum.
  const mean = first + rewards.reduce((sum, reward) => sum + (reward - first), 0) / rewards.length;
  const largest = rewards.reduce((most, reward) => Math.max(most, Math.abs(reward)), 1);
  return rewards.map((reward) => {
    const difference = reward - mean;
    return Math.abs(difference) <= rewardTolerance * largest ? 0 : difference;
  });
}

function rootMeanSquare(values: readonly number[]): number {
  if (values.length === 0) return 0;
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
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
 * the mean of |A| over the trajectories: of those that train, so those with advantage 0 are left out.
 *
 * @param advantages Of the trajectories that hold a decision. 1 where none of them has an advantage.
 */
export function advantageScale(advantages: readonly number[]): number {
  const training = advantages.filter((advantage) => advantage !== 0);
  if (training.length === 0) return 1;
  return training.reduce((sum, advantage) => sum + Math.abs(advantage), 0) / training.length;
}
