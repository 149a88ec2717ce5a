import { average, successOf } from '../evaluation/index.ts';
import { hasSignal } from '../learning/index.ts';
import type { GroupComparison, StepReport } from '../progress/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import type { ToolUses, Trajectory } from '../trajectory/index.ts';

type Figures = Pick<
  StepReport,
  | 'comparison'
  | 'rewardDeviation'
  | 'replyTokens'
  | 'repeatedShare'
  | 'failures'
  | 'stopReasons'
  | 'metrics'
  | 'tools'
  | 'contextOverflows'
  | 'callsInFlight'
  | 'otherModels'
>;

/** The figures of a report that follow from the rollouts alone. */
export function rolloutFigures(groups: readonly RolloutGroup[]): Figures {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const tokens = trajectories.map(({ sampledTokens }) => sampledTokens);
  return {
    comparison: compareGroups(groups),
    rewardDeviation: deviation(trajectories.flatMap(({ reward }) => reward ?? [])),
    replyTokens: { mean: average(tokens), max: Math.max(0, ...tokens) },
    repeatedShare: repeatedShareOf(trajectories),
    failures: count(
      groups.flatMap(({ rollouts }) =>
        rollouts.flatMap((rollout) => (rollout.status === 'completed' ? [] : [rollout.failure.code])),
      ),
    ),
    stopReasons: count(trajectories.flatMap(({ stopReason }) => stopReason ?? [])),
    metrics: meansOf(trajectories),
    ...observedFigures(groups.flatMap(({ rollouts }) => rollouts.map(({ trajectory }) => trajectory))),
  };
}

/** Figures over all rollouts, including those that did not complete. */
function observedFigures(
  trajectories: readonly Trajectory[],
): Pick<StepReport, 'tools' | 'contextOverflows' | 'callsInFlight' | 'otherModels'> {
  const seen = trajectories.map(({ observations }) => observations);
  const tools = new Map<string, ToolUses>();
  const otherModels = new Map<string, number>();
  for (const observations of seen) {
    for (const [name, { uses, errors, invalid }] of Object.entries(observations.tools)) {
      const before = tools.get(name) ?? { uses: 0, errors: 0, invalid: 0 };
      tools.set(name, {
        uses: before.uses + uses,
        errors: before.errors + errors,
        invalid: before.invalid + invalid,
      });
    }
    for (const [request, count] of Object.entries(observations.otherModels))
      otherModels.set(request, (otherModels.get(request) ?? 0) + count);
  }
  return {
    tools: sorted(tools),
    contextOverflows: seen.filter(({ contextOverflows }) => contextOverflows > 0).length,
    callsInFlight: seen.filter(({ unfinishedCalls }) => unfinishedCalls > 0).length,
    otherModels: sorted(otherModels),
  };
}

/** Sorted by name, so that the result does not depend on the order of events. */
function sorted<Value>(values: ReadonlyMap<string, Value>): Record<string, Value> {
  return Object.fromEntries([...values].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whether the environment gave single calls their own rewards. */
export function creditsCalls(groups: readonly RolloutGroup[]): boolean {
  return groups.some(({ trajectories }) =>
    trajectories.some(({ choices }) => choices.some(({ credited_reward: credited }) => credited != null)),
  );
}

function deviation(values: readonly number[]): number {
  const mean = average(values);
  return Math.sqrt(average(values.map((value) => (value - mean) ** 2)));
}

function repeatedShareOf(trajectories: readonly Trajectory[]): number {
  let sequences = 0;
  let repeated = 0;
  for (const { choices } of trajectories) {
    for (const { token_ids: tokens } of choices) {
      const counted = countRepeats(tokens ?? []);
      sequences += counted.sequences;
      repeated += counted.repeated;
    }
  }
  return sequences === 0 ? 0 : repeated / sequences;
}

/** Sorted by name, so that the result does not depend on the order of events. */
function count(names: readonly string[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const name of [...names].sort()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries(counts);
}

/** Mean of each metric over the trajectories that have it. */
function meansOf(trajectories: readonly Trajectory[]): Record<string, number> {
  const values = new Map<string, number[]>();
  for (const { metrics } of trajectories)
    for (const [name, value] of Object.entries(metrics)) {
      const known = values.get(name);
      if (known) known.push(Number(value));
      else values.set(name, [Number(value)]);
    }
  return Object.fromEntries([...values].map(([name, all]) => [name, average(all)]));
}

/** Enough to distinguish one reward, two rewards, and more. */
const mostRewardValues = 5;

/** Counts groups by what their completed rollouts have in common. */
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

/** Rounded, so that sums of the same parts in different order are equal. */
const rewardOf = ({ reward }: Trajectory): number => Number((reward ?? 0).toPrecision(9));

/** Uses the same test that decides whether a group can train. */
const hasEqualRewards = (group: readonly Trajectory[]): boolean =>
  !hasSignal(group.map((trajectory) => ({ reward: rewardOf(trajectory), credits: [] })));

const hasSucceeded = (trajectory: Trajectory): boolean => (successOf(trajectory) ?? 0) >= 1;

const isGreedy = ({ observations, recordedCalls }: Trajectory): boolean =>
  recordedCalls.length > 0 && observations.greedyCalls >= recordedCalls.length;

const hasAgentSeeds = ({ observations, recordedCalls }: Trajectory): boolean =>
  recordedCalls.length > 0 && observations.agentSeeds >= recordedCalls.length;

/** Stops at the first difference: replies may be long, and usually differ early. */
function isAlike(group: readonly Trajectory[]): boolean {
  const [first, ...others] = group.map(repliesOf);
  return first !== undefined && first.length > 0 && others.every((replies) => isSame(first, replies));
}

/** The sampled tokens of each call, in the order of the calls. */
const repliesOf = ({ recordedCalls }: Trajectory): readonly (readonly number[])[] =>
  recordedCalls.map(({ choice }) => choice.token_ids ?? []);

const isSame = (a: readonly (readonly number[])[], b: readonly (readonly number[])[]): boolean =>
  a.length === b.length &&
  a.every((tokens, call) => {
    const others = b[call] ?? [];
    return tokens.length === others.length && tokens.every((token, at) => token === others[at]);
  });

const sequenceLength = 4;

/** Number of four-token sequences in a reply, and how many of them repeat an earlier one. */
export function countRepeats(tokens: readonly number[]): { sequences: number; repeated: number } {
  const seen = new Set<string>();
  const sequences = Math.max(0, tokens.length - sequenceLength + 1);
  for (let at = 0; at < sequences; at++) seen.add(tokens.slice(at, at + sequenceLength).join());
  return { sequences, repeated: sequences - seen.size };
}

/** Share of a reply's four-token sequences that repeat an earlier one; 0 for fewer than four tokens. */
export function repeatedShare(tokens: readonly number[]): number {
  const { sequences, repeated } = countRepeats(tokens);
  return sequences === 0 ? 0 : repeated / sequences;
}
