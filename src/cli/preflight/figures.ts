import { costOf as costOfTokens, type TokenPrices } from '../../evaluation/index.ts';
import { hasSignal } from '../../learning/index.ts';
import {
  type FailureKind,
  failureKinds,
  type GroupsResult,
  type RolloutCounts,
  trajectoriesOf,
} from '../../rollout/index.ts';
import { isAgainstSuccess } from '../../training/index.ts';
import type { Trajectory } from '../../trajectory/index.ts';
import { largestOf, smallestOf } from '../../util/extremes.ts';
import { meanOf, meanOrNull, sumOf } from '../../util/sums.ts';
import type { ShortcutResult } from './shortcuts.ts';

/** Sizes of a run whose cost is told: steps, groups of a step, rollouts of a group. */
const sizes = [
  { name: 'small', steps: 20, groups: 8, rollouts: 8 },
  { name: 'usual', steps: 100, groups: 16, rollouts: 8 },
  { name: 'large', steps: 200, groups: 32, rollouts: 16 },
] as const;

/** Null without a price; the other one is then 0. */
export const pricesOf = ({
  promptPrice,
  sampledPrice,
}: {
  promptPrice?: number;
  sampledPrice?: number;
}): TokenPrices | null =>
  promptPrice === undefined && sampledPrice === undefined
    ? null
    : { promptTokensPerMillion: promptPrice ?? 0, sampledTokensPerMillion: sampledPrice ?? 0 };

/** What a run of a size needs for its rollouts alone. */
interface RunCost {
  name: string;
  rollouts: number;
  promptTokens: number;
  sampledTokens: number;
  /** At the pace of the rollouts that ran, so at most. */
  rolloutMinutes: number;
  /** In the currency of the prices; null without them. */
  cost: number | null;
}

export interface PreflightFigures {
  model: string;
  counts: RolloutCounts;
  reward: { mean: number; min: number; max: number } | null;
  success: number | null;
  groups: number;
  groupsWithSignal: number;
  /** Groups in which rollouts without success have the higher mean reward. */
  groupsAgainstSuccess: number;
  /** Mean of completed rollouts, all calls of each together. */
  promptTokens: number;
  sampledTokens: number;
  calls: number;
  longestPrompt: number;
  /** Temperatures that the agent asked for; 0 never differs, so it teaches nothing. */
  temperatures: number[];
  failures: FailureKind[];
  /** At least this many: a longer run is faster, because it has more rollouts at once and its code is compiled. */
  rolloutsPerSecond: number;
  costs: RunCost[];
  shortcuts: ShortcutResult[];
  warnings: string[];
}

interface FiguresOptions {
  model: string;
  rolloutsPerSecond: number;
  prices: TokenPrices | null;
  shortcuts: ShortcutResult[];
}

/** Reads a few dozen rollouts. Each seat of an environment with several agents is compared as a group of its own. */
export function figuresOf(
  { groups: scenarioGroups, counts }: GroupsResult<unknown>,
  { model, rolloutsPerSecond, prices, shortcuts }: FiguresOptions,
): PreflightFigures {
  const groups = scenarioGroups.flatMap((group) => group.bySeat());
  const trajectories = groups.flatMap((group) => group.trajectories);
  const rollouts = scenarioGroups
    .flatMap((group) => group.rollouts)
    .filter(({ status }) => status === 'completed')
    .map(trajectoriesOf);
  const perRollout = (count: (trajectory: Trajectory) => number) =>
    meanOf(rollouts.map((seats) => sumOf(seats, (trajectory) => count(trajectory))));
  const rewards = trajectories.flatMap(({ reward }) => reward ?? []);
  const successes = trajectories.flatMap(({ metrics }) =>
    metrics.success === undefined ? [] : Number(metrics.success),
  );
  const calls = trajectories.flatMap(({ log }) => log.calls);
  const usage = {
    promptTokens: perRollout(({ promptTokens }) => promptTokens),
    sampledTokens: perRollout(({ sampledTokens }) => sampledTokens),
  };
  const signal = groups.filter(({ trajectories: some }) =>
    hasSignal(some.map(({ reward }) => ({ reward: reward ?? 0, credits: [] }))),
  );
  const figures = {
    model,
    counts,
    reward:
      rewards.length > 0
        ? { mean: meanOf(rewards), min: smallestOf(rewards), max: largestOf(rewards) }
        : null,
    success: meanOrNull(successes),
    groups: groups.length,
    groupsWithSignal: signal.length,
    groupsAgainstSuccess: groups.filter((group) => isAgainstSuccess(group.trajectories)).length,
    ...usage,
    calls: perRollout(({ log }) => log.calls.length),
    longestPrompt: largestOf(
      calls.map(({ promptTokens }) => promptTokens),
      0,
    ),
    temperatures: [...new Set(calls.flatMap(({ choice }) => choice.sampling?.temperature ?? []))].sort(),
    failures: failureKinds(scenarioGroups),
    rolloutsPerSecond,
    costs: (counts.completed === 0 ? [] : sizes).map((size) =>
      costOf(size, { ...usage, rolloutsPerSecond, prices }),
    ),
    shortcuts,
  };
  return { ...figures, warnings: warningsOf(figures) };
}

function costOf(
  { name, steps, groups, rollouts: each }: (typeof sizes)[number],
  {
    promptTokens,
    sampledTokens,
    rolloutsPerSecond,
    prices,
  }: { promptTokens: number; sampledTokens: number; rolloutsPerSecond: number; prices: TokenPrices | null },
): RunCost {
  const rollouts = steps * groups * each;
  const tokens = {
    promptTokens: Math.round(rollouts * promptTokens),
    sampledTokens: Math.round(rollouts * sampledTokens),
  };
  return {
    name: `${name}: ${steps} steps of ${groups} x ${each}`,
    rollouts,
    ...tokens,
    rolloutMinutes: rollouts / Math.max(1e-9, rolloutsPerSecond) / 60,
    cost: costOfTokens(tokens, prices ?? undefined),
  };
}

/** What would waste a run. */
function warningsOf(figures: Omit<PreflightFigures, 'warnings'>): string[] {
  const { counts, reward, groups, groupsWithSignal, temperatures, shortcuts } = figures;
  const better = shortcuts.filter((one) => reward !== null && (one.reward ?? -Infinity) > reward.mean);
  return [
    ...(counts.completed === 0 ? ['No rollout completed: nothing can be learned. Read the failures.'] : []),
    ...(counts.completed > 0 && counts.failed * 5 > counts.dispatched
      ? [`${counts.failed} of ${counts.dispatched} rollouts failed: they do not train.`]
      : []),
    ...(figures.groupsAgainstSuccess > 0
      ? [
          `In ${figures.groupsAgainstSuccess} groups, rollouts that fail earn more than rollouts that succeed: a part of the reward or \`success\` reads the wrong field.`,
        ]
      : []),
    ...(counts.completed > 0 && groupsWithSignal === 0
      ? [
          'No group has rewards that differ: nothing can be learned without a `teacher`. ' +
            (reward !== null && reward.min === reward.max
              ? `Every rollout earns ${Number(reward.min.toPrecision(3))}: check that the reward reads the reply. If it does, make it finer, or the scenarios ${reward.min > 0 ? 'harder' : 'easier'}.`
              : 'Make the reward finer, or use scenarios of medium difficulty.'),
        ]
      : counts.completed > 0 && groupsWithSignal * 4 < groups
        ? [
            `Only ${groupsWithSignal} of ${groups} groups have rewards that differ: most rollouts teach nothing.`,
          ]
        : []),
    ...(temperatures.includes(0)
      ? [
          'The agent samples at temperature 0: its replies do not differ. Leave the temperature out, or set 1.',
        ]
      : []),
    ...better.map(
      ({ name, reward: earned }) =>
        `A shortcut earns more than the model: ${name} gets ${Number((earned ?? 0).toPrecision(3))}. Training would find it: fix the reward.`,
    ),
  ];
}
