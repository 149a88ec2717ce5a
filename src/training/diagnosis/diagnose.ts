import type { Alarm, AlarmKind } from '../../progress/index.ts';
import { detectClipped, detectCreditUnused, detectStale, mismatchDetectors } from './job.ts';
import { noSignalDetectors } from './no-signal.ts';
import {
  detectCollapse,
  detectRewardAgainstSuccess,
  detectRewardUpSuccessFlat,
  detectRewardUpValidationDown,
} from './rewards.ts';
import {
  detectCallsInFlight,
  detectContextOverflow,
  detectEventLoopHeld,
  detectFailures,
  detectGreedySampling,
  detectOtherModels,
  detectRepeatedText,
  detectToolErrors,
  detectWrongModel,
} from './rollouts.ts';
import { type Detector, type RunFigures, RunSoFar, runTotals } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

const detectors: readonly (readonly [AlarmKind, Detector])[] = [
  ['collapse', detectCollapse],
  ...[...noSignalDetectors.keys()].map((detect) => ['no_signal', detect] as const),
  ['greedy_sampling', detectGreedySampling],
  ['reward_up_validation_down', detectRewardUpValidationDown],
  ['reward_up_success_flat', detectRewardUpSuccessFlat],
  ['reward_against_success', detectRewardAgainstSuccess],
  ['tool_errors', detectToolErrors],
  ['context_overflow', detectContextOverflow],
  ['calls_in_flight', detectCallsInFlight],
  ['other_models', detectOtherModels],
  ['repeated_text', detectRepeatedText],
  ['wrong_model', detectWrongModel],
  ...mismatchDetectors.map((detect) => ['sampler_trainer_mismatch', detect] as const),
  ['clipped', detectClipped],
  ['stale', detectStale],
  ['failures', detectFailures],
  ['event_loop_held', detectEventLoopHeld],
  ['credit_unused', detectCreditUnused],
];

/**
 * All alarms of a run, in the order of the steps that raised them. An alarm is raised when its condition begins, and
 * again only after the condition has been absent for `alarmThresholds.silentSteps` steps. A `no_signal` alarm ends when
 * groups have a signal again; with cause `solved`, only when success falls below `alarmThresholds.noSignal.success`. As
 * a run grows, its earlier alarms stay the same, except that a validation after the last step may add some: see
 * `newAlarms`.
 */
export function diagnose(figures: RunFigures): Alarm[] {
  return new RunDiagnosis().next(figures);
}

/** The last step at which each detector found something. */
type LastSeen = ReadonlyMap<Detector, number>;

/** Incremental diagnosis of a run in progress. */
export class RunDiagnosis {
  /** Number of reports whose alarms are final. */
  #settled = 0;
  /** State of the detectors after these reports. */
  #lastSeen: LastSeen = new Map();

  /**
   * The alarms of the reports since the last call. The report before them is read again, because a validation may have
   * followed it. @param figures Of the whole run.
   */
  next(figures: RunFigures): Alarm[] {
    const totals = runTotals(figures.reports);
    const first = this.#settled;
    let before = this.#lastSeen;
    return figures.reports.slice(first).flatMap((newest, index) => {
      const at = first + index;
      const run = new RunSoFar(figures, { newest, count: at + 1, totals });
      const { alarms, lastSeen } = alarmsOf(run, at, before);
      this.#settled = at;
      this.#lastSeen = before;
      before = lastSeen;
      return alarms;
    });
  }
}

/** The alarms of the newest report of a run. @param at Its index. */
function alarmsOf(run: RunSoFar, at: number, before: LastSeen): { alarms: Alarm[]; lastSeen: LastSeen } {
  const lastSeen = new Map(before);
  const alarms = detectors.flatMap(([kind, detect]): Alarm[] => {
    const finding = detect(run);
    const since = at - (lastSeen.get(detect) ?? Number.NEGATIVE_INFINITY);
    const isNew = since > alarmThresholds.silentSteps;
    if (!finding) {
      if (!isNew && noSignalDetectors.get(detect)?.(run)) lastSeen.set(detect, at);
      return [];
    }
    lastSeen.set(detect, at);
    return isNew ? [{ kind, step: run.newest.step, ...finding }] : [];
  });
  return { alarms, lastSeen };
}

/** The alarms of `all` that are not in `reported`. Call it after each step and validation of a run in progress. */
export function newAlarms(reported: readonly Alarm[], all: readonly Alarm[]): Alarm[] {
  const known = new Set(reported.map(({ kind, step }) => `${kind} ${step}`));
  return all.filter(({ kind, step }) => !known.has(`${kind} ${step}`));
}
