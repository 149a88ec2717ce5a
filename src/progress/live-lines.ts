import { alarmLines } from './alarm-lines.ts';
import { coverageText } from './coverage.ts';
import { count, counted, decimal, duration, endText, leadingMetric, percent, shortPath } from './format.ts';
import {
  isEvaluation,
  isOutsideSteps,
  isPhase,
  type Milestone,
  type PhaseProgress,
  type RunProgress,
  timeLeftMs,
} from './run-progress.ts';
import { bar, sparkline } from './sparkline.ts';
import { type Canvas, clip, type Line, lineWidth, pad } from './text.ts';

const labelWidth = 12;
const figureWidth = 10;
const nameWidth = 18;

/** Both ends of a line: the right one gives way when there is no room. */
function spread(left: Line, right: Line, columns: number): Line {
  const space = columns - lineWidth(left) - lineWidth(right);
  return space < 2 ? left : [...left, { text: ' '.repeat(space) }, ...right];
}

function barCells(columns: number): number {
  return Math.max(4, Math.min(40, columns - labelWidth - figureWidth - 2));
}

function barLine(label: string, done: number, total: number | null, note: string, columns: number): Line {
  const { filled, rest } = bar(done, total, barCells(columns));
  return [
    { text: `  ${pad(label, labelWidth - 2)}`, style: 'dim' },
    { text: filled, style: 'cyan' },
    { text: rest, style: 'dim' },
    { text: ` ${note}` },
  ];
}

function curveLine(label: string, values: readonly number[], figure: string, columns: number): Line {
  const cells = barCells(columns);
  return [
    { text: `  ${pad(label, labelWidth - 2)}`, style: 'dim' },
    { text: pad(sparkline(values, cells), cells), style: 'green' },
    { text: ` ${figure}`, style: 'bold' },
  ];
}

function phaseLine(phase: PhaseProgress, { columns, nowMs }: Canvas): Line {
  const running = phase.endedAtMs === null;
  const metrics = leadingMetric(phase.metrics);
  const of = phase.total === null ? count(phase.done) : `${count(phase.done)}/${count(phase.total)}`;
  return spread(
    [
      running ? { text: '› ', style: 'cyan' } : { text: '✓ ', style: 'green' },
      { text: pad(phase.phase, nameWidth) },
      {
        text: [running ? of : count(phase.done), metrics].filter((part) => part !== '').join(' · '),
        style: 'dim',
      },
    ],
    [{ text: duration((phase.endedAtMs ?? nowMs) - phase.startedAtMs), style: 'dim' }],
    columns,
  );
}

function milestoneLine(milestone: Milestone, canvas: Canvas): Line {
  if (isPhase(milestone)) return phaseLine(milestone, canvas);
  const { name, score } = milestone;
  const success = score.success === null ? '' : ` · success ${percent(score.success)}`;
  return spread(
    [
      { text: '✓ ', style: 'green' },
      { text: pad(name, nameWidth) },
      { text: `reward ${decimal(score.reward)}${success}` },
    ],
    [{ text: coverageText(milestone), style: milestone.scored < milestone.scenarios ? 'yellow' : 'dim' }],
    canvas.columns,
  );
}

function headLines(progress: RunProgress, { columns, nowMs }: Canvas): Line[] {
  const { run, steps, startedAtMs, ended } = progress;
  const elapsed = duration((ended?.atMs ?? nowMs) - startedAtMs);
  const inStep = ended === null && !isOutsideSteps(progress) ? 1 : 0;
  const where = run === null ? '' : `step ${Math.min(steps.length + inStep, run.steps)} of ${run.steps} · `;
  return [
    spread(
      [
        { text: 'martingale', style: 'bold' },
        { text: run === null ? '' : `  ${run.model.replace(/:step\d+$/, '')}` },
      ],
      [{ text: `${where}${elapsed}`, style: 'dim' }],
      columns,
    ),
    ...(run === null ? [] : [[{ text: shortPath(run.runDirectory), style: 'dim' } as const]]),
    ...(run?.finishedSteps === undefined
      ? []
      : [[{ text: `resumed after ${counted(run.finishedSteps, 'step')}`, style: 'dim' } as const]]),
  ];
}

/** What a bar of the job counts, or where it stands when it has not said how much will come. */
function jobLine({ job }: RunProgress, columns: number): Line {
  if (job === null) return barLine('training', 0, null, '', columns);
  const note =
    job.total === null ? job.status : `${job.gradientSteps}/${counted(job.total, 'gradient step')}`;
  return barLine('training', job.gradientSteps, job.total, note, columns);
}

function loopLines(progress: RunProgress, columns: number): Line[] {
  const { run, steps, rollouts, job, ended } = progress;
  if (run === null || (steps.length === 0 && isOutsideSteps(progress))) return [];
  const last = steps.at(-1);
  // A step without a signal trains nothing and measures none: the last one that did speaks for it.
  const entropy = steps.findLast((step) => step.entropy !== null)?.entropy ?? null;
  const perStep = run.groupsPerStep * run.rolloutsPerGroup;
  const done = rollouts?.done ?? (job === null ? 0 : perStep);
  const left = timeLeftMs(progress);
  const hasSuccess = last !== undefined && last.success !== null;
  const isPipelined = steps.some(({ staleness }) => staleness.max > 0);
  const failed = last === undefined ? 0 : last.failed + last.cancelled;
  return [
    [],
    curveLine(
      'reward',
      steps.map((step) => step.reward),
      last ? decimal(last.reward) : '–',
      columns,
    ),
    ...(hasSuccess
      ? [
          curveLine(
            'success',
            steps.map((step) => step.success ?? 0),
            percent(last.success ?? 0),
            columns,
          ),
        ]
      : []),
    [
      { text: `  ${pad('entropy', labelWidth - 2)}`, style: 'dim' },
      { text: pad(entropy === null ? '–' : `${decimal(entropy)} nats`, 16) },
      { text: 'sampling ', style: 'dim' },
      { text: last ? `${count(last.tokensPerSecond)} tokens/s` : '–' },
      // Only a pipelined run has any, in its first steps neither.
      ...(isPipelined ? [{ text: `   stale ${decimal(last?.staleness.mean ?? 0, 1)}` }] : []),
      ...(failed > 0 ? [{ text: `   ${counted(failed, 'rollout')} failed`, style: 'yellow' } as const] : []),
    ],
    ...(ended === null && !isOutsideSteps(progress)
      ? [
          [],
          barLine(
            'rollouts',
            done,
            rollouts?.total ?? perStep,
            `${done}/${rollouts?.total ?? perStep}`,
            columns,
          ),
          jobLine(progress, columns),
          barLine('run', steps.length, run.steps, left === null ? '' : `${duration(left)} left`, columns),
        ]
      : []),
  ];
}

/** Something moves while the run is in no step: which side of the loop it is on, and for how long. */
function waitingLines(progress: RunProgress, { columns, nowMs }: Canvas): Line[] {
  const last = progress.milestones.at(-1);
  const isTold = last !== undefined && isPhase(last) && (last.endedAtMs === null || isEvaluation(last));
  if (!isOutsideSteps(progress) || isTold) return [];
  const where = progress.steps.length === 0 ? 'before the first step' : 'after the last step';
  return [
    spread(
      [{ text: '› ', style: 'cyan' }, { text: where }],
      [{ text: duration(nowMs - progress.toldAtMs), style: 'dim' }],
      columns,
    ),
  ];
}

/** The live view of a run, no line wider than the canvas. */
export function liveLines(progress: RunProgress, canvas: Canvas): Line[] {
  const before = progress.milestones.filter((milestone) => milestone.afterSteps === 0);
  const after = progress.milestones.filter((milestone) => milestone.afterSteps > 0);
  const waiting = waitingLines(progress, canvas);
  const below = [
    ...after.map((milestone) => milestoneLine(milestone, canvas)),
    ...(progress.steps.length > 0 ? waiting : []),
  ];
  const lines = [
    ...headLines(progress, canvas),
    [],
    ...before.map((milestone) => milestoneLine(milestone, canvas)),
    ...(progress.steps.length === 0 ? waiting : []),
    ...loopLines(progress, canvas.columns),
    ...alarmLines(progress.alarms, canvas.columns),
    ...(below.length > 0 ? [[], ...below] : []),
    ...(progress.ended === null || progress.ended.reason === 'finished'
      ? []
      : [[], [{ text: endText(progress.ended), style: 'yellow' } as const]]),
  ];
  return lines.map((line) => clip(line, canvas.columns));
}
