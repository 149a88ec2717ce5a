import { successOf } from '../evaluation/index.ts';
import { hasSignal } from '../learning/index.ts';
import type { GroupComparison } from '../progress/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import type { Trajectory } from '../trajectory/index.ts';

/** Enough to tell one reward, two, and more apart. */
const mostRewardValues = 5;

/** What the completed rollouts of each group have in common. */
export function compareGroups(groups: readonly RolloutGroup[]): GroupComparison {
  const compared = groups.map(({ trajectories }) => trajectories).filter(({ length }) => length >= 2);
  const count = (holds: (group: readonly Trajectory[]) => boolean) => compared.filter(holds).length;
  const judged = compared.some((group) => group.some((trajectory) => successOf(trajectory) !== null));
  const rewards = groups.flatMap(({ trajectories }) => trajectories.map(rewardOf));
  const equal = compared.filter(hasEqualRewards);
  const values = [...new Set(equal.map(([first]) => (first ? rewardOf(first) : 0)))].sort((a, b) => a - b);
  return {
    compared: compared.length,
    equalRewards: equal.length,
    solved: judged ? count((group) => group.every(hasSucceeded)) : null,
    unsolved: judged ? count((group) => !group.some(hasSucceeded)) : null,
    alike: count(isAlike),
    greedy: count((group) => group.every(isGreedy)),
    agentSeeds: count((group) => group.every(hasAgentSeeds)),
    equalRewardValues: values.slice(0, mostRewardValues),
    rewardRange: {
      min: rewards.reduce((least, reward) => Math.min(least, reward), Number.POSITIVE_INFINITY),
      max: rewards.reduce((most, reward) => Math.max(most, reward), Number.NEGATIVE_INFINITY),
    },
  };
}

/** Rounded, so that sums of the same parts in another order are one reward. */
const rewardOf = ({ reward }: Trajectory): number => Number((reward ?? 0).toPrecision(9));

/** By the same measure by which groups train. */
const hasEqualRewards = (group: readonly Trajectory[]): boolean =>
  !hasSignal(group.map((trajectory) => ({ reward: rewardOf(trajectory), credits: [] })));

const hasSucceeded = (trajectory: Trajectory): boolean => (successOf(trajectory) ?? 0) >= 1;

const isGreedy = ({ observations, recordedCalls }: Trajectory): boolean =>
  recordedCalls.length > 0 && observations.greedyCalls >= recordedCalls.length;

const hasAgentSeeds = ({ observations, recordedCalls }: Trajectory): boolean =>
  recordedCalls.length > 0 && observations.agentSeeds >= recordedCalls.length;

/** Compares until the first difference: replies may be long, and those of most groups differ early. */
function isAlike(group: readonly Trajectory[]): boolean {
  const [first, ...others] = group.map(repliesOf);
  return first !== undefined && first.length > 0 && others.every((replies) => isSame(first, replies));
}

/** The sampled tokens of each call, in the order in which the calls began. */
const repliesOf = ({ recordedCalls }: Trajectory): readonly (readonly number[])[] =>
  recordedCalls.map(({ choice }) => choice.token_ids ?? []);

const isSame = (a: readonly (readonly number[])[], b: readonly (readonly number[])[]): boolean =>
  a.length === b.length &&
  a.every((tokens, call) => {
    const others = b[call] ?? [];
    return tokens.length === others.length && tokens.every((token, at) => token === others[at]);
  });
