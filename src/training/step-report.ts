import { average, successOf } from '../evaluation/index.ts';
import type { GroupsResult } from '../rollout/index.ts';
import { type JobOutcome, meanMetrics } from './follow-job.ts';
import type { StepReport } from './run-event.ts';

export interface StepReportOptions {
  step: number;
  steps: number;
  policy: string;
  rollouts: GroupsResult<unknown>;
  /** Groups whose rewards differ. */
  groupsWithSignal: number;
  /** Null where no job was asked for, because no group carried a signal. */
  job: JobOutcome | null;
  phases: StepReport['phases'];
  seconds: number;
}

/** The books and figures of a step in which at least one rollout completed. */
export function toStepReport(options: StepReportOptions): StepReport {
  const { step, steps, policy, rollouts, groupsWithSignal, job, phases, seconds } = options;
  const trajectories = rollouts.groups.flatMap((group) => group.trajectories);
  const successes = trajectories.flatMap((trajectory) => successOf(trajectory) ?? []);
  const metrics = meanMetrics(job?.gradientSteps ?? []);
  const differences = (job?.gradientSteps ?? []).flatMap((metric) => metric.logprob_difference_max ?? []);
  return {
    step,
    steps,
    policy,
    reward: average(trajectories.flatMap(({ reward }) => reward ?? [])),
    success: successes.length > 0 ? average(successes) : null,
    ...rollouts.books,
    groups: rollouts.groups.length,
    groupsWithSignal: signalOf(metrics) ?? groupsWithSignal,
    rewardDeviation: 0,
    klSampler: metrics.kl_div ?? null,
    clippedShare: metrics.clipped_fraction ?? null,
    staleness: { mean: 0, max: 0 },
    replyTokens: { mean: 0, max: 0 },
    repeatedShare: 0,
    failures: {},
    stopReasons: {},
    credit: 'none',
    usage: { promptTokens: 0, sampledTokens: rollouts.sampledTokens, cost: null },
    metrics: {},
    logprobDifference: differences.length > 0 ? Math.max(...differences) : null,
    entropy: metrics.entropy ?? null,
    gradientNorm: metrics.grad_norm ?? null,
    loss: metrics.loss ?? null,
    klReference: metrics.kl_policy_ref ?? null,
    tokensPerSecond: rollouts.durationMs > 0 ? (rollouts.sampledTokens / rollouts.durationMs) * 1000 : 0,
    seconds,
    phases,
  };
}

/** Rewards may differ where nothing was decided: the job knows which groups trained. */
function signalOf(metrics: Record<string, number>): number | undefined {
  const { num_groups_submitted: submitted, num_groups_without_signal: silent } = metrics;
  return submitted === undefined || silent === undefined ? undefined : submitted - silent;
}
