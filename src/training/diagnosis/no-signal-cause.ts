import type { GroupComparison, NoSignalCause, StepReport } from '../../progress/index.ts';
import { sumOf } from '../../util/sums.ts';
import type { RunSoFar } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Figures of the recent groups from which the cause of equal rewards is found. */
export interface Evidence extends Omit<GroupComparison, 'rewardRange'> {
  /** All groups of the recent steps, compared or not. */
  groups: number;
  /** Mean of the metric `success`; 0 if there is none. */
  success: number;
  /** Range of rewards over the whole run. */
  runRange: GroupComparison['rewardRange'];
  /** Whether any group of the run has had different rewards. */
  hasEverDiffered: boolean;
}

/** Skips reports of earlier versions, which have no comparison of groups. */
export function evidenceOf(run: RunSoFar): Evidence {
  const recent = run.recent.filter(isCompared);
  const comparisons = recent.map(({ comparison }) => comparison);
  const { rewardRange: runRange, hasEverDiffered } = run.totals(run.steps);
  const total = (figure: (comparison: GroupComparison) => number) => sumOf(comparisons.map(figure));
  const judged = comparisons.filter(({ solved }) => solved !== null);
  return {
    groups: sumOf(recent.map(({ groups }) => groups)),
    compared: total(({ compared }) => compared),
    equalRewards: total(({ equalRewards }) => equalRewards),
    solved: judged.length > 0 ? sumOf(judged.map(({ solved }) => solved ?? 0)) : null,
    unsolved: judged.length > 0 ? sumOf(judged.map(({ unsolved }) => unsolved ?? 0)) : null,
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
 * Why groups have no signal. If the environment has the metric `success`, it decides. Otherwise the rewards of the run
 * decide: if they have ever differed within a group, the reward depends on replies.
 */
export function causeOf(evidence: Evidence): NoSignalCause {
  const { agreeing, comparable } = alarmThresholds.noSignal;
  const { groups, compared, equalRewards, solved, unsolved, alike } = evidence;
  if (groups === 0) return 'unknown';
  if (compared < comparable * groups || compared === 0) return 'not_compared';
  // Rewards differ, so the signal is missing for another reason, for example credit in place of rewards.
  if (equalRewards < agreeing * compared) return 'unknown';
  const isMost = (count: number) => count >= agreeing * compared;
  if (solved !== null && isMost(solved)) return 'solved';
  if (isMost(alike)) return 'replies_alike';
  const cause =
    solved === null || unsolved === null
      ? causeByRewards(evidence)
      : causeBySuccess(evidence, { isNever: isMost(unsolved), isDecided: isMost(solved + unsolved) });
  // `reward_ignores_replies` can only be concluded from replies that differ.
  return cause === 'reward_ignores_replies' && alike > compared / 2 ? 'replies_alike' : cause;
}

function causeBySuccess(
  { equalRewardValues, hasEverDiffered, runRange, success }: Evidence,
  { isNever, isDecided }: { isNever: boolean; isDecided: boolean },
): NoSignalCause {
  const isConstant = equalRewardValues.length === 1;
  // With some success, the only reward of the run cannot be the reward of failure.
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
  // Two different rewards may mean success and failure.
  return hasEverDiffered || values.length === 2 ? 'always_or_never' : 'reward_ignores_replies';
}

type ComparedReport = StepReport & { comparison: GroupComparison };

const isCompared = (report: StepReport): report is ComparedReport => report.comparison !== null;
