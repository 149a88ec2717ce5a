import type { FailureKind } from '../rollout/index.ts';
import { meanOf } from '../util/sums.ts';
import type { Alarm, StepReport } from './report.ts';
import type { RunEvent } from './run-event.ts';

type Event<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

export interface PhaseProgress {
  phase: string;
  done: number;
  total: number | null;
  metrics: Record<string, number>;
  startedAtMs: number;
  /** Null while the phase runs. */
  endedAtMs: number | null;
  /** Whether the run was stopped during this phase. */
  isStopped: boolean;
}

/** A phase or an evaluation result outside the steps, with the number of steps finished before it. */
export type Milestone = (PhaseProgress | Event<'evaluated'>) & { afterSteps: number };

/** The state of a view, computed from the events of a run. */
export interface RunProgress {
  /** Title of the view until the model's name is known. */
  title: string;
  startedAtMs: number;
  /** Time of the last event. */
  lastEventAtMs: number;
  run: Event<'run_started'> | null;
  milestones: Milestone[];
  steps: StepReport[];
  alarms: Alarm[];
  /** The latest kind of failure; null without one. */
  failure: { name: string; step: number | undefined; kind: FailureKind } | null;
  /** The current step, and the progress of its rollouts and its job. */
  step: number;
  rollouts: Event<'rollouts'> | null;
  job: Event<'job'> | null;
  ended: (Event<'run_ended'> & { atMs: number }) | null;
}

export const newRun = (nowMs: number, title = ''): RunProgress => ({
  title,
  startedAtMs: nowMs,
  lastEventAtMs: nowMs,
  run: null,
  milestones: [],
  steps: [],
  alarms: [],
  failure: null,
  step: 0,
  rollouts: null,
  job: null,
  ended: null,
});

export const isPhase = (milestone: Milestone): milestone is PhaseProgress & Milestone => 'phase' in milestone;

/** Ends the running phase: phases end at their total, or when something else begins. */
function closePhases(milestones: readonly Milestone[], nowMs: number, isStopped: boolean): Milestone[] {
  return milestones.map((milestone) =>
    isPhase(milestone) && milestone.endedAtMs === null
      ? { ...milestone, endedAtMs: nowMs, isStopped }
      : milestone,
  );
}

const isOver = (total: number | null, done: number): boolean => total !== null && done >= total;

function withPhase(progress: RunProgress, event: Event<'phase'>, nowMs: number): Milestone[] {
  const { phase, done, total, metrics } = event;
  const last = progress.milestones.at(-1);
  // A phase may report its end more than once.
  const isSame =
    last !== undefined &&
    isPhase(last) &&
    last.phase === phase &&
    (last.endedAtMs === null || isOver(total, done));
  const before = isSame ? progress.milestones.slice(0, -1) : closePhases(progress.milestones, nowMs, false);
  const startedAtMs = isSame ? last.startedAtMs : nowMs;
  const endedAtMs = (isSame ? last.endedAtMs : null) ?? (isOver(total, done) ? nowMs : null);
  const afterSteps = progress.steps.length;
  return [...before, { phase, done, total, metrics, startedAtMs, endedAtMs, isStopped: false, afterSteps }];
}

/** Whether a phase is an evaluation. Its result is a separate event. */
export const isEvaluation = ({ phase }: PhaseProgress): boolean => /^evaluation( |$)/.test(phase);

/** Replaces the progress of an evaluation by its result. */
function withResult({ milestones, steps }: RunProgress, event: Event<'evaluated'>): Milestone[] {
  const last = milestones.at(-1);
  const isProgress = last !== undefined && isPhase(last) && isEvaluation(last);
  return [...(isProgress ? milestones.slice(0, -1) : milestones), { ...event, afterSteps: steps.length }];
}

/** The run after one more event. */
export function advance(before: RunProgress, event: RunEvent, nowMs: number): RunProgress {
  const progress: RunProgress = { ...before, lastEventAtMs: nowMs };
  if (event.type === 'phase') return { ...progress, milestones: withPhase(progress, event, nowMs) };
  const isStopped = event.type === 'run_ended' && event.reason === 'stopped';
  const open: RunProgress = { ...progress, milestones: closePhases(progress.milestones, nowMs, isStopped) };
  switch (event.type) {
    case 'run_started':
      // The curve of a resumed run includes its earlier steps.
      return { ...open, run: event, steps: event.finishedReports ?? [] };
    case 'evaluated':
      return { ...open, milestones: withResult(open, event) };
    case 'rollouts':
      return { ...open, step: event.step, rollouts: event, job: null };
    case 'job':
      return { ...open, step: event.step, job: event };
    case 'step': {
      const { type: _, ...report } = event;
      return { ...open, steps: [...open.steps, report], rollouts: null, job: null };
    }
    case 'alarm': {
      const { type: _, ...alarm } = event;
      // An alarm follows its step's report and ends no running phase.
      return { ...progress, alarms: [...progress.alarms, alarm] };
    }
    case 'failures': {
      const { name, step, kinds } = event;
      const [kind] = kinds;
      return kind ? { ...progress, failure: { name, step, kind } } : progress;
    }
    case 'run_ended':
      return { ...open, ended: { ...event, atMs: nowMs }, rollouts: null, job: null };
  }
}

/** Estimated milliseconds for the remaining steps, from the last 20 steps; null before the first. */
export function timeLeftMs(progress: RunProgress): number | null {
  const recent = progress.steps.slice(-20);
  const total = progress.run?.steps ?? progress.steps.at(-1)?.steps;
  if (recent.length === 0 || total === undefined) return null;
  const pace = meanOf(recent.map((step) => step.seconds));
  return Math.max(0, total - progress.steps.length) * pace * 1000;
}

/** Whether a started run is before its first step or after its last. */
export function isOutsideSteps({ run, steps, rollouts, job, ended }: RunProgress): boolean {
  if (run === null || ended !== null || rollouts !== null || job !== null) return false;
  return steps.length === 0 || steps.length >= run.steps;
}
