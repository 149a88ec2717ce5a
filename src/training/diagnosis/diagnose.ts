import type { Alarm, AlarmKind } from '../../progress/index.ts';
import {
  detectClipped,
  detectCreditUnused,
  detectMismatch,
  detectNotableMismatch,
  detectStale,
} from './job.ts';
import { lastingSilence, silenceDetectors } from './no-signal.ts';
import { detectCollapse, detectRewardUpSuccessFlat, detectRewardUpValidationDown } from './rewards.ts';
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
  ...silenceDetectors.map((detect) => ['no_signal', detect] as const),
  ['greedy_sampling', detectGreedySampling],
  ['reward_up_validation_down', detectRewardUpValidationDown],
  ['reward_up_success_flat', detectRewardUpSuccessFlat],
  ['tool_errors', detectToolErrors],
  ['context_overflow', detectContextOverflow],
  ['calls_in_flight', detectCallsInFlight],
  ['other_models', detectOtherModels],
  ['repeated_text', detectRepeatedText],
  ['wrong_model', detectWrongModel],
  ['sampler_trainer_mismatch', detectMismatch],
  ['sampler_trainer_mismatch', detectNotableMismatch],
  ['clipped', detectClipped],
  ['stale', detectStale],
  ['failures', detectFailures],
  ['event_loop_held', detectEventLoopHeld],
  ['credit_unused', detectCreditUnused],
];

/**
 * Every alarm of a run, in the order of the steps that raised them. An alarm is raised when what it is about begins,
 * and again only after that has been gone for `alarmThresholds.silentSteps` steps. That scenarios are solved is gone
 * when success falls below `alarmThresholds.noSignal.success`, not when single steps have a signal; another cause of
 * silence is gone when groups have a signal again. A longer run begins with the alarms of a shorter one, but for
 * validations that came after its last step: see `newAlarms`.
 */
export function diagnose(figures: RunFigures): Alarm[] {
  return new RunDiagnosis().next(figures);
}

/** By detector: the last step at which it saw something. */
type LastSeen = ReadonlyMap<Detector, number>;

/** The diagnosis of a run that goes on, which does not begin anew with each step. */
export class RunDiagnosis {
  /** Reports that nothing can change any more. */
  #settled = 0;
  /** After those. */
  #lastSeen: LastSeen = new Map();

  /**
   * The alarms of the reports that have come since the last call, and again of the one before them: a validation may
   * have come after it. The figures are those of the whole run.
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

/** Of the newest report of a run, whose index is `at`. */
function alarmsOf(run: RunSoFar, at: number, before: LastSeen): { alarms: Alarm[]; lastSeen: LastSeen } {
  const lastSeen = new Map(before);
  const alarms = detectors.flatMap(([kind, detect]): Alarm[] => {
    const finding = detect(run);
    const since = at - (lastSeen.get(detect) ?? Number.NEGATIVE_INFINITY);
    const isGone = since > alarmThresholds.silentSteps;
    if (!finding) {
      if (!isGone && lastingSilence.get(detect)?.(run)) lastSeen.set(detect, at);
      return [];
    }
    lastSeen.set(detect, at);
    return isGone ? [{ kind, step: run.newest.step, ...finding }] : [];
  });
  return { alarms, lastSeen };
}

/** Those of `all` that have not been told: of a run that goes on, what to tell after each step and validation. */
export function newAlarms(told: readonly Alarm[], all: readonly Alarm[]): Alarm[] {
  const known = new Set(told.map(({ kind, step }) => `${kind} ${step}`));
  return all.filter(({ kind, step }) => !known.has(`${kind} ${step}`));
}
