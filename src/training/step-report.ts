import { costOf, successOf, type TokenPrices } from '../evaluation/index.ts';
import { hasSignal } from '../learning/index.ts';
import type { GroupComparison, StepReport } from '../progress/index.ts';
import type { GroupsResult, RolloutGroup } from '../rollout/index.ts';
import { addUses, type ToolUses, type Trajectory } from '../trajectory/index.ts';
import { largestOf } from '../util/extremes.ts';
import { meanOf, meanOrNull, sumOf } from '../util/sums.ts';
import { usageOf } from './budget.ts';
import { type JobOutcome, meanMetrics } from './follow-job.ts';
import { isOfPolicy, opponentResults, seatMetrics } from './seats.ts';

interface StepReportOptions
  extends Pick<
    StepReport,
    'step' | 'steps' | 'policy' | 'groupsWithSignal' | 'seconds' | 'loopDelayMs' | 'loopHeldMs' | 'phases'
  > {
  /** Checkpoints between the sampled and the trained one. */
  staleness: number;
  rollouts: GroupsResult<unknown>;
  figures: ReturnType<typeof rolloutFigures>;
  /** Null if no job was requested because no group had a signal. */
  job: JobOutcome | null;
  prices: TokenPrices | undefined;
}

/** Makes the report of a step in which at least one rollout completed. */
export function toStepReport(options: StepReportOptions): StepReport {
  const {
    staleness,
    rollouts,
    figures,
    job,
    prices,
    groupsWithSignal,
    seconds,
    loopDelayMs,
    loopHeldMs,
    phases,
    ...step
  } = options;
  const groups = rollouts.groups.flatMap((group) => group.bySeat()).filter(isOfPolicy);
  const trajectories = groups.flatMap((group) => group.trajectories);
  const successes = trajectories.flatMap((trajectory) => successOf(trajectory) ?? []);
  const metrics = meanMetrics(job?.gradientSteps ?? []);
  const differences = (job?.gradientSteps ?? []).flatMap((metric) => metric.logprob_difference_max ?? []);
  const usage = usageOf(rollouts.groups);
  return {
    ...step,
    reward: meanOf(trajectories.flatMap(({ reward }) => reward ?? [])),
    success: meanOrNull(successes),
    ...rollouts.counts,
    groups: groups.length,
    groupsWithSignal: signalOf(job?.untrained?.metrics ?? metrics) ?? groupsWithSignal,
    ...figures,
    klSampler: metrics.kl_div ?? null,
    clippedShare: metrics.clipped_fraction ?? null,
    // All groups of a step sample from the same checkpoint.
    staleness: { mean: staleness, max: staleness },
    opponents: opponentResults(rollouts.groups),
    credit: creditOf(groups, job, metrics),
    usage: { ...usage, cost: costOf(usage, prices) },
    logprobDifference: differences.length > 0 ? largestOf(differences) : null,
    entropy: metrics.entropy ?? null,
    gradientNorm: metrics.grad_norm ?? null,
    loss: metrics.loss ?? null,
    klReference: metrics.kl_policy_ref ?? null,
    tokensPerSecond: rollouts.durationMs > 0 ? (rollouts.sampledTokens / rollouts.durationMs) * 1000 : 0,
    seconds,
    loopDelayMs,
    loopHeldMs,
    phases,
  };
}

/** Groups with signal as the job counts them: groups may differ in reward and still have no decision to train on. */
function signalOf(metrics: Record<string, number>): number | undefined {
  const { num_groups_submitted: submitted, num_groups_without_signal: silent } = metrics;
  return submitted === undefined || silent === undefined ? undefined : submitted - silent;
}

/** `none` also if no job was requested: then no credit could be used or lost. */
function creditOf(
  groups: GroupsResult<unknown>['groups'],
  job: JobOutcome | null,
  { num_credited_choices: credited = 0 }: Record<string, number>,
): StepReport['credit'] {
  if (!job || !creditsCalls(groups)) return 'none';
  return credited > 0 ? 'used' : 'not_confirmed';
}

/** The figures of a report that follow from the rollouts alone. */
export function rolloutFigures(all: readonly RolloutGroup[]) {
  const groups = all.flatMap((group) => group.bySeat()).filter(isOfPolicy);
  const trajectories = groups.flatMap((group) => group.trajectories);
  const tokens = trajectories.map(({ sampledTokens }) => sampledTokens);
  return {
    comparison: compareGroups(groups),
    rewardDeviation: deviation(trajectories.flatMap(({ reward }) => reward ?? [])),
    replyTokens: { mean: meanOf(tokens), max: largestOf(tokens, 0) },
    repeatedShare: repeatedShareOf(trajectories),
    failures: count(
      all.flatMap(({ rollouts }) =>
        rollouts.flatMap((rollout) => (rollout.status === 'completed' ? [] : [rollout.failure.code])),
      ),
    ),
    stopReasons: count(trajectories.flatMap(({ stopReason }) => stopReason ?? [])),
    metrics: { ...meanMetrics(trajectories.map(({ metrics }) => metrics)), ...seatMetrics(all) },
    ...observedFigures(groups.flatMap(({ rollouts }) => rollouts.map(({ trajectory }) => trajectory))),
  };
}

/** Figures over all rollouts, including those that did not complete. */
function observedFigures(trajectories: readonly Trajectory[]) {
  const all = trajectories.map(({ observations }) => observations);
  const tools = new Map<string, ToolUses>();
  const otherModels = new Map<string, number>();
  for (const observations of all) {
    for (const [name, uses] of Object.entries(observations.tools))
      tools.set(name, addUses(tools.get(name), uses));
    for (const [request, count] of Object.entries(observations.otherModels))
      otherModels.set(request, (otherModels.get(request) ?? 0) + count);
  }
  return {
    tools: sorted(tools),
    contextOverflows: all.filter(({ contextOverflows }) => contextOverflows > 0).length,
    callsInFlight: all.filter(({ unfinishedCalls }) => unfinishedCalls > 0).length,
    rewrittenHistories: sumOf(all, ({ rewrittenHistories }) => rewrittenHistories),
    askedForms: askedFormsOf(trajectories),
    otherModels: sorted(otherModels),
  };
}

/** Forms of a report, and characters of one. */
const [maxForms, maxFormLength] = [3, 500];

function askedFormsOf(trajectories: readonly Trajectory[]): string[] {
  const forms = new Set<string>();
  for (const { log } of trajectories) {
    const asked = Object.entries(log.calls[0]?.askedForm ?? {});
    const text = asked.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(', ');
    if (text !== '' && forms.size < maxForms)
      forms.add(text.length > maxFormLength ? `${text.slice(0, maxFormLength)}…` : text);
  }
  return [...forms];
}

/** Sorted by name, so that the result does not depend on the order of events. */
function sorted<Value>(values: ReadonlyMap<string, Value>): Record<string, Value> {
  return Object.fromEntries([...values].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whether the environment gave single calls their own rewards. */
function creditsCalls(groups: readonly RolloutGroup[]): boolean {
  return groups.some(({ trajectories }) =>
    trajectories.some(({ choices }) => choices.some(({ credited_reward: credited }) => credited != null)),
  );
}

function deviation(values: readonly number[]): number {
  const mean = meanOf(values);
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2)));
}

function repeatedShareOf(trajectories: readonly Trajectory[]): number {
  let sequences = 0;
  let repeated = 0;
  for (const { log } of trajectories) {
    const { repeats } = log.replies;
    sequences += repeats.sequences;
    repeated += repeats.repeated;
  }
  return sequences === 0 ? 0 : repeated / sequences;
}

function count(names: readonly string[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return sorted(counts);
}

/** Enough to distinguish one reward, two rewards, and more. */
const maxRewardValues = 5;

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
    mixed: count(isMixed),
    againstSuccess: count(isAgainstSuccess),
    alike: count(isAlike),
    greedy: count((group) => group.every(isGreedy)),
    agentSeeds: count((group) => group.every(hasAgentSeeds)),
    equalRewardValues: values.slice(0, maxRewardValues),
    rewardRange: {
      min: rewards.reduce((min, reward) => Math.min(min, reward), Number.POSITIVE_INFINITY),
      max: rewards.reduce((max, reward) => Math.max(max, reward), Number.NEGATIVE_INFINITY),
    },
  };
}

/** Rounded, so that sums of the same parts in different order are equal. */
const rewardOf = ({ reward }: Trajectory): number => Number((reward ?? 0).toPrecision(9));

const isMixed = (group: readonly Trajectory[]): boolean =>
  group.some(hasSucceeded) && !group.every(hasSucceeded) && group.every((one) => successOf(one) !== null);

/** Whether the rollouts without success have the higher mean reward. */
export function isAgainstSuccess(group: readonly Trajectory[]): boolean {
  if (!isMixed(group)) return false;
  const meanReward = (succeeded: boolean) =>
    meanOf(group.filter((one) => hasSucceeded(one) === succeeded).map(rewardOf));
  return meanReward(false) > meanReward(true);
}

/** Uses the same test that decides whether a group can train. */
const hasEqualRewards = (group: readonly Trajectory[]): boolean =>
  !hasSignal(group.map((trajectory) => ({ reward: rewardOf(trajectory), credits: [] })));

const hasSucceeded = (trajectory: Trajectory): boolean => (successOf(trajectory) ?? 0) >= 1;

const isGreedy = ({ observations, log }: Trajectory): boolean =>
  log.calls.length > 0 && observations.greedyCalls >= log.calls.length;

const hasAgentSeeds = ({ observations, log }: Trajectory): boolean =>
  log.calls.length > 0 && observations.agentSeeds >= log.calls.length;

function isAlike(group: readonly Trajectory[]): boolean {
  const [first, ...others] = group.map(({ log }) => log);
  if (!first || first.calls.length === 0) return false;
  const { hash } = first.replies;
  return others.every(({ replies }) => replies.hash === hash);
}
