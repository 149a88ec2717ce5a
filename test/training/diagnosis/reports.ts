import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { GroupComparison, StepReport } from '../../../src/progress/index.ts';

/** A comparison of twelve groups, nine of them with a signal, with changes. */
export const comparison = (change: Partial<GroupComparison> = {}): GroupComparison => ({
  compared: 12,
  equalRewards: 3,
  solved: 2,
  unsolved: 1,
  alike: 0,
  greedy: 0,
  agentSeeds: 0,
  equalRewardValues: [0, 1],
  rewardRange: { min: 0, max: 1 },
  ...change,
});

/** A report of a step without problems, with changes. */
export const report = (step: number, change: Partial<StepReport> = {}): StepReport => ({
  step,
  steps: 100,
  reward: 0.5,
  success: 0.5,
  dispatched: 96,
  completed: 96,
  failed: 0,
  cancelled: 0,
  groupsWithSignal: 9,
  groups: 12,
  comparison: comparison(),
  logprobDifference: 1e-6,
  rewardDeviation: 0.3,
  klSampler: 1e-7,
  clippedShare: 0,
  staleness: { mean: 0, max: 0 },
  replyTokens: { mean: 20, max: 40 },
  repeatedShare: 0,
  failures: {},
  stopReasons: {},
  tools: {},
  contextOverflows: 0,
  callsInFlight: 0,
  rewrittenHistories: 0,
  askedForms: [],
  otherModels: {},
  credit: 'none',
  usage: { promptTokens: 2000, sampledTokens: 1000, cost: null },
  opponents: [],
  metrics: {},
  entropy: 0.5,
  gradientNorm: 0.5,
  loss: 0.1,
  klReference: null,
  tokensPerSecond: 40_000,
  seconds: 0.5,
  loopDelayMs: 12,
  phases: { rollouts: 0.3, log: 0.05, training: 0.1, checkpoint: 0.05 },
  policy: `local/desk/clerk:step${step}`,
  ...change,
});

/** Reports of several steps. `change` may depend on the step. */
export const reports = (
  count: number,
  change: (step: number) => Partial<StepReport> = () => ({}),
): StepReport[] => Array.from({ length: count }, (_, step) => report(step, change(step)));

const deskRunSchema = z.object({
  groups: z.number(),
  steps: z.array(
    z.tuple([
      z.number(),
      z.number(),
      z.number().nullable(),
      z.number(),
      z.number(),
      z.number(),
      z.number().nullable(),
    ]),
  ),
});

/** Recorded reports of `npm start` (120 steps, seed 1): a run that learns its task, to 98% success. */
export function deskRun(): StepReport[] {
  const text = readFileSync(new URL('desk-run.json', import.meta.url), 'utf8');
  const { groups, steps } = deskRunSchema.parse(JSON.parse(text));
  return steps.map(
    ([reward, success, entropy, rewardDeviation, groupsWithSignal, repeatedShare, logprobDifference], step) =>
      report(step, {
        ...{ groups, reward, success, entropy, rewardDeviation, groupsWithSignal, repeatedShare },
        logprobDifference,
      }),
  );
}
