import { requestLimits } from '../contract/basics.ts';
import { sumOf } from '../util/sums.ts';
import { LearningError } from './datum.ts';

export interface AdvantageOptions {
  /** Divide by the group's standard deviation. */
  scaleRewards: boolean;
  /** b in [-1, 1]: above 0 multiplies negative advantages by (1 - b), below 0 positive ones by (1 + b). */
  advantageBalance: number;
}

/** Keeps the quotient finite when a group's rewards hardly differ. */
const scaleFloor = 1e-6;

/**
 * Rewards whose distance from their mean, relative to the largest of them (at least 1), is below this count as equal:
 * the distance is rounding. Without the tolerance it would be trained on, and an optimizer that normalises gradients,
 * such as Adam, would turn it into full steps.
 */
const rewardTolerance = 1e-12;

/** The reward of a trajectory and the credits of its choices. */
interface CreditedTrajectory {
  reward: number;
  /** For each choice its credit, or null when the trajectory's reward applies. */
  credits: readonly (number | null)[];
}

/**
 * Advantages of the choices of one group, for each trajectory in the order of its `credits`. The return of a choice
 * is its credit, or the trajectory's reward when it has none. A trajectory without choices has its reward as its only
 * return. The baseline is the mean of the trajectories' mean returns, so that a trajectory counts the same whatever its
 * number of choices. The deviation is the root of the mean of the trajectories' mean squared distances from the
 * baseline.
 *
 * A = return - baseline, divided by (deviation + 1e-6) with `scaleRewards`, then balanced (see `AdvantageOptions`). An
 * advantage within rounding of 0 is exactly 0, so all advantages of a group with equal rewards, or with one trajectory,
 * are 0. Without credits this is GRPO's formula (Shao et al. 2024, arXiv:2402.03300, section 4.1.1) with the population
 * standard deviation.
 *
 * @throws LearningError `reward_not_finite` when a reward or credit is NaN or infinite, `reward_too_large` beyond 1e9.
 */
export function choiceAdvantages(
  trajectories: readonly CreditedTrajectory[],
  options: AdvantageOptions,
): number[][] {
  const centred = centre(trajectories);
  const scale = options.scaleRewards ? rootMeanSquare(centred) + scaleFloor : 1;
  return centred.map((values) => values.map((value) => balance(value / scale, options.advantageBalance)));
}

/** Population standard deviation of the rewards of one group; exactly 0 when they are equal within rounding. */
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
  // Summing differences from one return loses fewer digits than summing the returns.
  const total = sumOf(returns, (values) => exactMean(values.map((value) => value - first)));
  const baseline = first + total / returns.length;
  const largest = returns.flat().reduce((max, value) => Math.max(max, Math.abs(value)), 1);
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
      `${what}. Pass a finite number, or leave the trajectory out.`,
    );
  if (Math.abs(value) > requestLimits.number)
    throw new LearningError(
      'reward_too_large',
      `${what}; the limit is ${requestLimits.number}. Scale the rewards down.`,
    );
}

function rootMeanSquare(centred: readonly (readonly number[])[]): number {
  if (centred.length === 0) return 0;
  const total = sumOf(centred, (values) => exactMean(values.map((value) => value * value)));
  return Math.sqrt(total / centred.length);
}

/** For equal values the mean is exactly that value, however many choices share it. */
function exactMean(values: readonly number[]): number {
  const [first = 0] = values;
  if (values.every((value) => value === first)) return first;
  return sumOf(values) / values.length;
}

function balance(advantage: number, by: number): number {
  if (advantage === 0) return 0;
  const factor = advantage < 0 ? Math.min(1, 1 - by) : Math.min(1, 1 + by);
  // Avoids a negative zero.
  return factor === 0 ? 0 : advantage * factor;
}
