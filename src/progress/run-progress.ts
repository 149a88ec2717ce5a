import type { FailureKind } from '../rollout/index.ts';
import type { Alarm, RunEvent, StepReport } from './run-event.ts';

type Event<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

export interface PhaseProgress {
  phase: string;
  done: number;
  total: number | null;
  metrics: Record<string, number>;
  startedAtMs: number;
  /** Null while it goes on. */
  endedAtMs: number | null;
  /** Whether the run was stopped in it: then it is not done. */
  isStopped: boolean;
}

/** What goes on before and after the loop, in order, with the number of steps taken by then. */
export type Milestone = (PhaseProgress | Event<'evaluated'>) & { afterSteps: number };

/** Everything a view shows of a run, folded from its events. */
export interface RunProgress {
  /** What is shown at the top until a run has said its model. */
  title: string;
  startedAtMs: number;
  /** When the last event came. */
  toldAtMs: number;
  run: Event<'run_started'> | null;
  milestones: Milestone[];
  steps: StepReport[];
  alarms: Alarm[];
  /** The newest kind of failure that was told; null where none was. */
  failure: { name: string; step: number | undefined; kind: FailureKind } | null;
  /** The step under way, and how far it has come. */
  step: number;
  rollouts: Event<'rollouts'> | null;
  job: Event<'job'> | null;
  ended: (Event<'run_ended'> & { atMs: number }) | null;
}

export const newRun = (nowMs: number, title = ''): RunProgress => ({
  title,
  startedAtMs: nowMs,
  toldAtMs: nowMs,
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

/** A phase is over at its total, or when something else begins. */
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
  // A phase may say more than once that it is over.
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

/** Whether a phase is the progress of an evaluation, whose result is an event of its own. */
export const isEvaluation = ({ phase }: PhaseProgress): boolean => /^evaluation( |$)/.test(phase);

/** An evaluation's result takes the place of its progress. */
function withResult({ milestones, steps }: RunProgress, event: Event<'evaluated'>): Milestone[] {
  const last = milestones.at(-1);
  const isProgress = last !== undefined && isPhase(last) && isEvaluation(last);
  return [...(isProgress ? milestones.slice(0, -1) : milestones), { ...event, afterSteps: steps.length }];
}

/** The run after one more event. */
export function advance(before: RunProgress, event: RunEvent, nowMs: number): RunProgress {
  const progress: RunProgress = { ...before, toldAtMs: nowMs };
  if (event.type === 'phase') return { ...progress, milestones: withPhase(progress, event, nowMs) };
  const isStopped = event.type === 'run_ended' && event.reason === 'stopped';
  const open: RunProgress = { ...progress, milestones: closePhases(progress.milestones, nowMs, isStopped) };
  switch (event.type) {
    case 'run_started':
      // A run that is resumed goes on with its curve.
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
      // Told after the step's report; what goes on is not over because of it.
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

/** Milliseconds that the remaining steps will take at the pace of the last twenty; null before the first. */
export function timeLeftMs(progress: RunProgress): number | null {
  const recent = progress.steps.slice(-20);
  const total = progress.run?.steps ?? progress.steps.at(-1)?.steps;
  if (recent.length === 0 || total === undefined) return null;
  const pace = recent.reduce((sum, step) => sum + step.seconds, 0) / recent.length;
  return Math.max(0, total - progress.steps.length) * pace * 1000;
}

/** A run that has begun but is in no step: before its first, or after its last, where it may be evaluated. */
export function isOutsideSteps({ run, steps, rollouts, job, ended }: RunProgress): boolean {
  if (run === null || ended !== null || rollouts !== null || job !== null) return false;
  return steps.length === 0 || steps.length >= run.steps;
}
