import type { Alarm, RunEvent, StepReport } from '../progress/index.ts';
import { type RunEvaluation, readRun } from '../training/index.ts';
import { append, largestOf, smallestOf } from '../util/extremes.ts';
import type { EvaluationRow, RunDetail } from './api.ts';
import type { FoundRun } from './find-runs.ts';
import { optimizationOf } from './optimization.ts';
import { readRow } from './run-row.ts';
import { inOrder, whichOf } from './which.ts';

/** More steps than this are too many to draw: each n-th is sent, and those with an alarm. */
const maxReports = 500;

/** A run with its curves, alarms and validations. */
export async function readDetail(run: FoundRun): Promise<RunDetail> {
  const row = await readRow(run);
  if (row.status === 'broken')
    return {
      ...row,
      optimization: null,
      config: {},
      reports: [],
      stepsApart: 1,
      alarms: [],
      evaluations: [],
      names: [],
      failures: [],
    };
  const reader = await readRun(run.folder);
  const alarms: Alarm[] = [];
  const failures: RunDetail['failures'] = [];
  for await (const event of reader.events()) {
    if (event.type === 'alarm') alarms.push(alarmOf(event));
    if (event.type === 'failures') append(failures, failuresOf(event));
  }
  const [reports, config] = [await reader.reports(), (await reader.config()) ?? {}];
  const stepsApart = Math.max(1, Math.ceil(reports.length / maxReports));
  return {
    ...row,
    optimization: await optimizationOf(run.folder, config),
    config,
    reports: thinned(reports, stepsApart, alarms),
    stepsApart,
    alarms,
    evaluations: (await reader.evaluations()).map((evaluation) => toRow(evaluation, rangeOf(reports))),
    names: inOrder((await reader.groupNames()).map(whichOf)),
    failures: failures.slice(-20).reverse(),
  };
}

function alarmOf({ kind, cause, step, message, lookAt }: Extract<RunEvent, { type: 'alarm' }>): Alarm {
  return { kind, ...(cause === undefined ? {} : { cause }), step, message, lookAt };
}

const failuresOf = ({ step, kinds }: Extract<RunEvent, { type: 'failures' }>) =>
  kinds.map(({ code, message, count }) => ({ step: step ?? null, kind: `${code}: ${message}`, count }));

/** The first, each n-th and the last report, and those with an alarm. */
function thinned(reports: readonly StepReport[], apart: number, alarms: readonly Alarm[]): StepReport[] {
  const wanted = new Set(alarms.map(({ step }) => step));
  return reports.filter(({ step }, at) => at % apart === 0 || at === reports.length - 1 || wanted.has(step));
}

type Range = readonly [low: number, high: number];

const toRow = (
  { name, step, policy, score, intervals, scenarios }: RunEvaluation,
  rewards: Range | null,
): EvaluationRow => ({
  name,
  step,
  policy,
  reward: score.reward,
  rewardInterval: within(intervals?.reward, score.reward, rewards),
  success: score.success,
  successInterval: within(intervals?.success, score.success, [0, 1]),
  scenarios,
});

/** The smallest and the largest reward of the steps' rollouts; null if no report has them. */
function rangeOf(reports: readonly StepReport[]): Range | null {
  const ranges = reports.flatMap(({ comparison }) => comparison?.rewardRange ?? []);
  if (ranges.length === 0) return null;
  return [smallestOf(ranges.map(({ min }) => min)), largestOf(ranges.map(({ max }) => max))];
}

/**
 * An interval without what lies beyond the range: a mean is never above the largest reward, though a normal interval of
 * it may be. A mean beyond the range shows that the rewards have another range.
 */
function within(
  interval: Range | null | undefined,
  mean: number | null,
  range: Range | null,
): [number, number] | null {
  if (!interval) return null;
  const [low, high] = interval;
  if (!range || mean === null || mean < range[0] || mean > range[1]) return [low, high];
  return [Math.max(low, range[0]), Math.min(high, range[1])];
}
