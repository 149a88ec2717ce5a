import type { Alarm, GroupComparison, StepReport } from '../../progress/index.ts';
import { meanOf, meanOrNull } from '../../util/sums.ts';
import { alarmThresholds, canRank } from './thresholds.ts';

/** A validation of the run: its mean reward, and the number of steps before it. */
export interface EvaluationPoint {
  /** 0 before the first step. */
  step: number;
  reward: number;
  /** Share of its rollouts that did not complete. Default 0. Above one half, the validation is ignored. */
  failedShare?: number;
}

/** The data of a run for `diagnose`. */
export interface RunFigures {
  /** In the order of the steps. */
  reports: readonly StepReport[];
  /** In the order of the steps. */
  evaluations?: readonly EvaluationPoint[];
  /** `maxStaleness` of the run, if it has a bound. */
  stalenessBound?: number | undefined;
}

type Figure = (report: StepReport) => number | null | undefined;

/** The state of a run after one of its steps. */
export class RunSoFar {
  readonly newest: StepReport;
  readonly evaluations: readonly EvaluationPoint[];
  readonly stalenessBound: number | undefined;
  readonly #reports: readonly StepReport[];
  readonly #totals: readonly RunTotals[];
  readonly #count: number;

  /** @param totals Made by `runTotals` from all reports. */
  constructor(
    { reports, evaluations = [], stalenessBound }: RunFigures,
    { newest, count, totals }: { newest: StepReport; count: number; totals: readonly RunTotals[] },
  ) {
    this.#reports = reports;
    this.#totals = totals;
    this.#count = count;
    this.newest = newest;
    this.evaluations = evaluations.filter(
      (evaluation) => evaluation.step <= newest.step + 1 && canRank(evaluation),
    );
    this.stalenessBound = stalenessBound;
  }

  /** Number of steps so far. */
  get steps(): number {
    return this.#count;
  }

  /** Sums over the first `steps` steps. */
  totals(steps: number): RunTotals {
    const totals = this.#totals[steps];
    if (!totals) throw new RangeError(`The run has no step ${steps}.`);
    return totals;
  }

  /** Reports of the last `recentSteps` steps, oldest first. */
  get recent(): readonly StepReport[] {
    return this.#reports.slice(Math.max(0, this.#count - alarmThresholds.recentSteps), this.#count);
  }

  /** Whether there are enough steps to compare the recent ones with the first ones. */
  get hasHistory(): boolean {
    return this.#count >= alarmThresholds.startSteps + alarmThresholds.recentSteps;
  }

  /** Mean over the recent steps that have the figure; null if none has. */
  now(figure: Figure): number | null {
    return meanFigure(this.recent, figure);
  }

  /** Mean over the first steps that have the figure; null if none has. */
  start(figure: Figure): number | null {
    return meanFigure(this.#reports.slice(0, Math.min(alarmThresholds.startSteps, this.#count)), figure);
  }

  /** The newest value; null if there is none. */
  last(figure: Figure): number | null {
    for (let at = this.#count - 1; at >= 0; at--) {
      const report = this.#reports[at];
      const value = report && figure(report);
      if (value !== null && value !== undefined) return value;
    }
    return null;
  }

  /** Moving average of the training reward over `recentSteps` steps. */
  rewards(): { step: number; reward: number }[] {
    const { recentSteps } = alarmThresholds;
    return Array.from({ length: Math.max(0, this.#count - recentSteps + 1) }, (_, at) => {
      const stretch = this.#reports.slice(at, at + recentSteps);
      return { step: stretch.at(-1)?.step ?? 0, reward: meanOf(stretch.map(({ reward }) => reward)) };
    });
  }
}

function meanFigure(reports: readonly StepReport[], figure: Figure): number | null {
  const values = reports.flatMap((report) => figure(report) ?? []);
  return meanOrNull(values);
}

/** The finding of a detector; null if nothing is wrong. */
export type Finding = Pick<Alarm, 'cause' | 'message' | 'lookAt'> | null;

export type Detector = (run: RunSoFar) => Finding;

export const groupsWithSignalShare: Figure = ({ groups, groupsWithSignal }) =>
  groups > 0 ? groupsWithSignal / groups : null;

/** "step" or "5 steps", to follow "the last". */
export const stepsOf = ({ length }: readonly StepReport[]): string =>
  length === 1 ? 'step' : `${length} steps`;

/** A number as messages show it, with 3 significant digits. */
export const formatNumber = (value: number): string => String(Number(value.toPrecision(3)));

/** The most frequent code and its count, to follow "most often with". */
export function mostFrequent(counts: Iterable<readonly [code: string, count: number]>): string {
  const sums = new Map<string, number>();
  for (const [code, count] of counts) sums.set(code, (sums.get(code) ?? 0) + count);
  const [code, count] = [...sums].sort(([, a], [, b]) => b - a)[0] ?? ['unknown', 0];
  return `${code} (${count})`;
}

export const percent = (share: number): string => `${formatNumber(share * 100)}%`;

/** Sums over the first steps of a run. The difference of two gives the sums of a range of steps. */
interface RunTotals {
  reward: number;
  rewardDeviation: number;
  success: number;
  /** Number of steps that have a success. */
  judged: number;
  completed: number;
  /** Smallest and largest reward of a rollout, as far as reports contain it. */
  rewardRange: GroupComparison['rewardRange'];
  /** Whether any group has had different rewards. */
  hasEverDiffered: boolean;
}

const none: RunTotals = {
  reward: 0,
  rewardDeviation: 0,
  success: 0,
  judged: 0,
  completed: 0,
  rewardRange: { min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY },
  hasEverDiffered: false,
};

/** The totals after 0 steps, 1 step, and so on. Computed once, because each step of the run is diagnosed. */
export function runTotals(reports: readonly StepReport[]): RunTotals[] {
  const totals = [none];
  let last = none;
  for (const { reward, rewardDeviation, success, completed, groupsWithSignal, comparison } of reports) {
    const { min, max } = comparison?.rewardRange ?? none.rewardRange;
    last = {
      reward: last.reward + reward,
      rewardDeviation: last.rewardDeviation + rewardDeviation,
      success: last.success + (success ?? 0),
      judged: last.judged + (success === null ? 0 : 1),
      completed: last.completed + completed,
      rewardRange: { min: Math.min(last.rewardRange.min, min), max: Math.max(last.rewardRange.max, max) },
      hasEverDiffered: last.hasEverDiffered || groupsWithSignal > 0,
    };
    totals.push(last);
  }
  return totals;
}
