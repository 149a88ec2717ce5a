import { average } from '../evaluation/index.ts';
import type { StepReport } from '../progress/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import type { ToolUses, Trajectory } from '../trajectory/index.ts';
import { compareGroups } from './compare-groups.ts';
import { countRepeats } from './diagnosis/index.ts';

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

/** What the rollouts of a step alone say of it. */
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

/** What was seen in all rollouts, those that did not complete too. */
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

/** In the order of the names: which came first must not show. */
function sorted<Value>(values: ReadonlyMap<string, Value>): Record<string, Value> {
  return Object.fromEntries([...values].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whether an environment has credited calls of its trajectories with rewards of their own. */
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

/** In the order of the names: which came first must not show. */
function count(names: readonly string[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const name of [...names].sort()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries(counts);
}

/** Each metric's mean over the trajectories that have it. */
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
