import { groupStandardDeviation } from '../../learning/index.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { ScenarioSetError } from './errors.ts';

export interface DifficultyOptions {
  /** A scenario is judged by its last groups of rewards, and skipped where all of these ended alike. Default 2. */
  groups?: number;
  /** A group whose rewards are all equal and at least this is solved. Default 1. */
  solvedAt?: number;
  /** A group whose rewards are all equal and at most this is unsolved. Default 0. */
  unsolvedAt?: number;
  /** At no moment have more than this share of all draws been skipped. From 0 to below 1, default 0.5. */
  maxSkippedShare?: number;
  /** A scenario that is skipped is given all the same each such time that it comes up. At least 1, default 4. */
  retryEvery?: number;
  /** Nothing is skipped while fewer scenarios than this are in play. Default 1. */
  floor?: number;
  /** Scenarios whose results are kept; beyond it the one heard of least lately is forgotten. Default 100,000. */
  remember?: number;
}

const difficultyNames = {
  groups: true,
  solvedAt: true,
  unsolvedAt: true,
  maxSkippedShare: true,
  retryEvery: true,
  floor: true,
  remember: true,
} satisfies OptionNames<DifficultyOptions>;

/** What `.byDifficulty()` has learnt and done. Scenarios that were never drawn are in no count. */
export interface DifficultyReport {
  /** Of the set: '' for a set of its own, `name/` for a part of a mix. */
  name: string;
  /** Scenarios whose last groups were all solved; all unsolved; all equal in between. */
  alwaysSolved: number;
  neverSolved: number;
  alwaysEqual: number;
  /** The others: their rewards differ, or not enough is known. */
  inPlay: number;
  /** Scenarios that came up, given and skipped. */
  draws: number;
  skipped: number;
  bounds: Required<DifficultyOptions>;
}

/** How a group of rewards ended: solved, unsolved, equal in between, or mixed, which is what teaches. */
export type GroupVerdict = 's' | 'u' | 'e' | 'm';

/** Null for fewer than two rewards: they show nothing of how they differ. */
export function judgeGroup(
  rewards: readonly number[],
  { solvedAt, unsolvedAt }: Pick<Required<DifficultyOptions>, 'solvedAt' | 'unsolvedAt'>,
): GroupVerdict | null {
  const [first] = rewards;
  if (first === undefined || rewards.length < 2) return null;
  if (groupStandardDeviation(rewards) > 0) return 'm';
  if (first >= solvedAt) return 's';
  return first <= unsolvedAt ? 'u' : 'e';
}

/** @throws OptionError, and ScenarioSetError that names the first option that cannot be met. */
export function resolveDifficulty(options: DifficultyOptions): Required<DifficultyOptions> {
  checkOptionNames('byDifficulty()', options, difficultyNames);
  const bounds = {
    groups: 2,
    solvedAt: 1,
    unsolvedAt: 0,
    maxSkippedShare: 0.5,
    retryEvery: 4,
    floor: 1,
    remember: 100_000,
    ...options,
  };
  for (const [name, value, least] of [
    ['groups', bounds.groups, 1],
    ['retryEvery', bounds.retryEvery, 1],
    ['floor', bounds.floor, 0],
    ['remember', bounds.remember, 1],
  ] as const) {
    if (!Number.isInteger(value) || value < least)
      throw new ScenarioSetError(`\`${name}\` is ${value}; give a whole number of at least ${least}.`);
  }
  if (!(bounds.maxSkippedShare >= 0 && bounds.maxSkippedShare < 1)) {
    throw new ScenarioSetError(
      `\`maxSkippedShare\` is ${bounds.maxSkippedShare}; give a share from 0 to below 1.`,
    );
  }
  if (!(bounds.unsolvedAt < bounds.solvedAt)) {
    throw new ScenarioSetError(
      `\`unsolvedAt\` is ${bounds.unsolvedAt} and \`solvedAt\` ${bounds.solvedAt}; the first must be the lower one.`,
    );
  }
  return bounds;
}
