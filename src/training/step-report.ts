import { average, successOf } from '../evaluation/index.ts';
import type { StepReport } from '../progress/index.ts';
import type { GroupsResult } from '../rollout/index.ts';
import { costOf, type TokenPrices, usageOf } from './budget.ts';
import { type JobOutcome, meanMetrics } from './follow-job.ts';
import { creditsCalls, rolloutFigures } from './step-figures.ts';

export interface StepReportOptions {
  step: number;
  steps: number;
  /** Pinned name of the model that the rollouts sampled from. */
  policy: string;
  /** Checkpoints between the sampled and the trained one. */
  staleness: number;
  rollouts: GroupsResult<unknown>;
  /** Groups whose rewards differ. */
  groupsWithSignal: number;
  /** Null if no job was requested because no group had a signal. */
  job: JobOutcome | null;
  prices: TokenPrices | undefined;
  phases: StepReport['phases'];
  seconds: number;
  /** Longest time that the event loop was blocked, in milliseconds. */
  loopDelayMs: number;
}

/** Makes the report of a step in which at least one rollout completed. */
export function toStepReport(options: StepReportOptions): StepReport {
  const { step, steps, policy, staleness, rollouts, groupsWithSignal, job, prices } = options;
  const { phases, seconds, loopDelayMs } = options;
  const { groups } = rollouts;
  const trajectories = groups.flatMap((group) => group.trajectories);
  const successes = trajectories.flatMap((trajectory) => successOf(trajectory) ?? []);
  const metrics = meanMetrics(job?.gradientSteps ?? []);
  const differences = (job?.gradientSteps ?? []).flatMap((metric) => metric.logprob_difference_max ?? []);
  const usage = usageOf(groups);
  return {
    step,
    steps,
    policy,
    reward: average(trajectories.flatMap(({ reward }) => reward ?? [])),
    success: successes.length > 0 ? average(successes) : null,
    ...rollouts.counts,
    groups: groups.length,
    groupsWithSignal: signalOf(job?.untrained?.metrics ?? metrics) ?? groupsWithSignal,
    ...rolloutFigures(groups),
    klSampler: metrics.kl_div ?? null,
    clippedShare: metrics.clipped_fraction ?? null,
    // All groups of a step sample from the same checkpoint.
    staleness: { mean: staleness, max: staleness },
    credit: creditOf(groups, job, metrics),
    usage: { ...usage, cost: costOf(usage, prices) },
    logprobDifference: differences.length > 0 ? Math.max(...differences) : null,
    entropy: metrics.entropy ?? null,
    gradientNorm: metrics.grad_norm ?? null,
    loss: metrics.loss ?? null,
    klReference: metrics.kl_policy_ref ?? null,
    tokensPerSecond: rollouts.durationMs > 0 ? (rollouts.sampledTokens / rollouts.durationMs) * 1000 : 0,
    seconds,
    loopDelayMs,
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
