import type { GroupComparison, NoSignalCause, StepReport } from '../../progress/index.ts';
import { type RunSoFar, sum } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** What the groups of the last steps say about their equal rewards. */
export interface Evidence extends Omit<GroupComparison, 'rewardRange'> {
  /** Groups of those steps, whether they could be compared or not. */
  groups: number;
  /** Mean of the metric `success`; 0 without it. */
  success: number;
  /** Rewards of the whole run. */
  runRange: GroupComparison['rewardRange'];
  /** Whether the rewards of any group of the run have differed. */
  hasEverDiffered: boolean;
}

/** Reports of earlier versions do not compare their groups: they add nothing. */
export function evidenceOf(run: RunSoFar): Evidence {
  const recent = run.recent.filter(isCompared);
  const comparisons = recent.map(({ comparison }) => comparison);
  const { rewardRange: runRange, hasEverDiffered } = run.totals(run.steps);
  const total = (figure: (comparison: GroupComparison) => number) => sum(comparisons.map(figure));
  const judged = comparisons.filter(({ solved }) => solved !== null);
  return {
    groups: sum(recent.map(({ groups }) => groups)),
    compared: total(({ compared }) => compared),
    equalRewards: total(({ equalRewards }) => equalRewards),
    solved: judged.length > 0 ? sum(judged.map(({ solved }) => solved ?? 0)) : null,
    unsolved: judged.length > 0 ? sum(judged.map(({ unsolved }) => unsolved ?? 0)) : null,
    success: run.now(({ success }) => success) ?? 0,
    alike: total(({ alike }) => alike),
    greedy: total(({ greedy }) => greedy),
    agentSeeds: total(({ agentSeeds }) => agentSeeds),
    equalRewardValues: [...new Set(comparisons.flatMap(({ equalRewardValues }) => equalRewardValues))].sort(
      (a, b) => a - b,
    ),
    runRange,
    hasEverDiffered,
  };
}

/**
 * Why groups have no signal. Success decides where the environment has that metric. Without it, rewards of the run do:
 * a reward that has differed within some group does depend on replies.
 */
export function causeOf(evidence: Evidence): NoSignalCause {
  const { agreeing, comparable } = alarmThresholds.noSignal;
  const { groups, compared, equalRewards, solved, unsolved, alike } = evidence;
  if (groups === 0) return 'unknown';
  if (compared < comparable * groups || compared === 0) return 'not_compared';
  // Credit in place of rewards, say.
  if (equalRewards < agreeing * compared) return 'unknown';
  const isMost = (count: number) => count >= agreeing * compared;
  if (solved !== null && isMost(solved)) return 'solved';
  if (isMost(alike)) return 'replies_alike';
  const cause =
    solved === null || unsolved === null
      ? causeByRewards(evidence)
      : causeBySuccess(evidence, { isNever: isMost(unsolved), isDecided: isMost(solved + unsolved) });
  // What is said of the reward needs replies that differ.
  return cause === 'reward_ignores_replies' && alike > compared / 2 ? 'replies_alike' : cause;
}

function causeBySuccess(
  { equalRewardValues, hasEverDiffered, runRange, success }: Evidence,
  { isNever, isDecided }: { isNever: boolean; isDecided: boolean },
): NoSignalCause {
  const isConstant = equalRewardValues.length === 1;
  // The one reward of the run cannot be that of failure where success is more than none.
  if (isNever && runRange.min === runRange.max && success > 0) return 'constant_reward';
  if (isNever) return isConstant || hasEverDiffered ? 'unsolved' : 'reward_ignores_replies';
  if (isConstant) return 'constant_reward';
  return isDecided ? 'always_or_never' : 'reward_ignores_replies';
}

function causeByRewards({ equalRewardValues: values, runRange, hasEverDiffered }: Evidence): NoSignalCause {
  const [only] = values;
  if (values.length === 1) {
    if (runRange.min === runRange.max || !hasEverDiffered) return 'constant_reward';
    if (only === runRange.max) return 'solved';
    return only === runRange.min ? 'unsolved' : 'constant_reward';
  }
  // Two rewards may be those of success and failure.
  return hasEverDiffered || values.length === 2 ? 'always_or_never' : 'reward_ignores_replies';
}

type ComparedReport = StepReport & { comparison: GroupComparison };

const isCompared = (report: StepReport): report is ComparedReport => report.comparison !== null;
