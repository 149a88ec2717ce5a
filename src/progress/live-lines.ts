import { shortPath } from '../util/show-value.ts';
import { sumOf } from '../util/sums.ts';
import {
  askedFormLines,
  continuedModelLines,
  count,
  counted,
  coverageText,
  decimal,
  duration,
  endText,
  leadingMetric,
  percent,
  rewrittenText,
  versionLines,
} from './format.ts';
import {
  alarmLines,
  alarmTitle,
  bar,
  barLine,
  curveLine,
  failureLines,
  labelWidth,
  nameCell,
  spread,
} from './live-parts.ts';
import {
  isEvaluation,
  isOutsideSteps,
  isPhase,
  type Milestone,
  type PhaseProgress,
  type RunProgress,
  timeLeftMs,
} from './run-progress.ts';
import { type Canvas, clip, type Line, lineWidth, pad } from './text.ts';

const barGap = 3;
const maxColumns = 100;

function phaseMark({ endedAtMs, isStopped }: PhaseProgress): Line[number] {
  if (endedAtMs === null) return { text: '› ', style: 'cyan' };
  return isStopped ? { text: '– ', style: 'yellow' } : { text: '✓ ', style: 'green' };
}

function phaseLine(phase: PhaseProgress, { columns, nowMs }: Canvas): Line {
  const { done, total, startedAtMs, endedAtMs, isStopped } = phase;
  const running = endedAtMs === null;
  const metrics = leadingMetric(phase.metrics);
  const amount = total === null ? count(done) : `${count(done)}/${count(total)}`;
  const progress = isStopped ? `stopped at ${amount}` : running ? amount : count(done);
  const what: Line = [
    phaseMark(phase),
    nameCell(phase.phase, progress, columns),
    {
      text: [progress, metrics].filter((part) => part !== '').join(' · '),
      style: 'dim',
    },
  ];
  const spentMs = (endedAtMs ?? nowMs) - startedAtMs;
  const isTimed = running && total !== null && done > 0 && done < total && columns >= 60;
  const left = isTimed ? `, ${duration((spentMs / done) * (total - done))} left` : '';
  const right: Line = [{ text: `${duration(spentMs)}${left}`, style: 'dim' }];
  const cells = Math.min(24, columns - lineWidth(what) - lineWidth(right) - 2 * barGap);
  if (!running || total === null || cells < 8) return spread(what, right, columns);
  const { filled, rest } = bar(done, total, cells);
  const drawn: Line = [
    { text: ' '.repeat(barGap) },
    { text: filled, style: 'cyan' },
    { text: rest, style: 'dim' },
  ];
  return spread([...what, ...drawn], right, columns);
}

function milestoneLine(milestone: Milestone, canvas: Canvas): Line {
  if (isPhase(milestone)) return phaseLine(milestone, canvas);
  const { name, score } = milestone;
  const reward = `reward ${decimal(score.reward)}`;
  const success = score.success === null ? '' : ` · success ${percent(score.success)}`;
  return spread(
    [{ text: '✓ ', style: 'green' }, nameCell(name, reward, canvas.columns), { text: `${reward}${success}` }],
    [{ text: coverageText(milestone), style: milestone.scored < milestone.scenarios ? 'yellow' : 'dim' }],
    canvas.columns,
  );
}

function headLines(progress: RunProgress, { columns, nowMs }: Canvas): Line[] {
  const { run, steps, startedAtMs, ended } = progress;
  const elapsed = duration((ended?.atMs ?? nowMs) - startedAtMs);
  const inStep = ended === null && !isOutsideSteps(progress) ? 1 : 0;
  const name = run === null ? progress.title : run.model.replace(/:step\d+$/, '');
  const where =
    run === null ? '' : `${Math.min(steps.length + inStep, run.steps)} of ${counted(run.steps, 'step')} · `;
  return [
    spread(
      [{ text: 'martingale', style: 'bold' }, { text: name === '' ? '' : `  ${name}` }],
      [{ text: `${where}${elapsed}`, style: 'dim' }],
      columns,
    ),
    ...(run === null ? [] : [[{ text: shortPath(run.runDirectory), style: 'dim' } as const]]),
    ...(run === null
      ? []
      : [...continuedModelLines(run), ...versionLines(run)].map((text) => [
          { text, style: 'yellow' } as const,
        ])),
    ...(run?.finishedSteps === undefined
      ? []
      : [[{ text: `resumed after ${counted(run.finishedSteps, 'step')}`, style: 'dim' } as const]]),
  ];
}

/** The bar of the training job: gradient steps, or its status while their total is unknown. */
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
  // A step without a signal has no entropy: show the last known entropy.
  const entropy = steps.findLast((step) => step.entropy !== null)?.entropy ?? null;
  const perStep = run.groupsPerStep * run.rolloutsPerGroup;
  const done = rollouts?.done ?? (job === null ? 0 : perStep);
  const left = timeLeftMs(progress);
  const hasSuccess = last !== undefined && last.success !== null;
  const isPipelined = steps.some(({ staleness }) => staleness.max > 0);
  const failed = last === undefined ? 0 : last.failed + last.cancelled;
  const rewritten = sumOf(steps, (step) => step.rewrittenHistories);
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
      // Only a pipelined run has staleness, and not in its first steps.
      ...(isPipelined ? [{ text: `   stale ${decimal(last?.staleness.mean ?? 0, 1)}` }] : []),
      ...(failed > 0 ? [{ text: `   ${counted(failed, 'rollout')} failed`, style: 'yellow' } as const] : []),
      ...(rewritten > 0 ? [{ text: `   ${rewrittenText(rewritten)} in all` }] : []),
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

/** A line with a clock while the run is before its first step or after its last. */
function waitingLines(progress: RunProgress, { columns, nowMs }: Canvas): Line[] {
  const last = progress.milestones.at(-1);
  const hasClock = last !== undefined && isPhase(last) && (last.endedAtMs === null || isEvaluation(last));
  if (!isOutsideSteps(progress) || hasClock) return [];
  const where = progress.steps.length === 0 ? 'before the first step' : 'after the last step';
  return [
    spread(
      [{ text: '› ', style: 'cyan' }, { text: where }],
      [{ text: duration(nowMs - progress.lastEventAtMs), style: 'dim' }],
      columns,
    ),
  ];
}

/** The live view of a run, clipped to the canvas. With too few rows, only the most important lines. */
export function liveLines(progress: RunProgress, whole: Canvas & { rows?: number | undefined }): Line[] {
  // In wider lines the two ends are too far apart to read together.
  const canvas = { ...whole, columns: Math.min(whole.columns, maxColumns) };
  const lines = wholeView(progress, canvas);
  const rows = canvas.rows ?? lines.length;
  const fitted = lines.length <= rows ? lines : shortView(progress, canvas).slice(0, Math.max(1, rows));
  return fitted.map((line) => clip(line, canvas.columns));
}

function formLines(forms: readonly string[] | undefined): Line[] {
  const lines = askedFormLines(forms).map((text): Line => [{ text: `  ${text}`, style: 'dim' }]);
  return lines.length > 0 ? [[], ...lines] : [];
}

/** Most important lines first: run, current work, reward, last alarm. */
function shortView(progress: RunProgress, canvas: Canvas): Line[] {
  const { run, steps, milestones, alarms, rollouts, job } = progress;
  const [head = []] = headLines(progress, canvas);
  const { columns } = canvas;
  const loop = run === null ? [] : loopLines(progress, columns);
  const [, reward] = loop;
  const doing = job !== null ? loop.at(-2) : rollouts !== null ? loop.at(-3) : undefined;
  const last = milestones.at(-1);
  const alarm = alarms.at(-1);
  return [
    head,
    ...(doing ? [doing] : last ? [milestoneLine(last, canvas)] : []),
    ...(reward && steps.length > 0 ? [reward] : []),
    ...(alarm ? [[{ text: `! ${alarmTitle(alarm)}: ${alarm.message}`, style: 'yellow' } as const]] : []),
  ];
}

function wholeView(progress: RunProgress, canvas: Canvas): Line[] {
  const before = progress.milestones.filter((milestone) => milestone.afterSteps === 0);
  const after = progress.milestones.filter((milestone) => milestone.afterSteps > 0);
  const waiting = waitingLines(progress, canvas);
  const above = [
    ...before.map((milestone) => milestoneLine(milestone, canvas)),
    ...(progress.steps.length === 0 ? waiting : []),
  ];
  const below = [
    ...after.map((milestone) => milestoneLine(milestone, canvas)),
    ...(progress.steps.length > 0 ? waiting : []),
  ];
  return [
    ...headLines(progress, canvas),
    ...(above.length > 0 ? [[], ...above] : []),
    ...loopLines(progress, canvas.columns),
    ...failureLines(progress.failure, canvas.columns),
    ...alarmLines(progress.alarms, canvas.columns),
    ...(below.length > 0 ? [[], ...below] : []),
    ...(progress.ended === null || progress.ended.reason === 'finished'
      ? []
      : [[], [{ text: endText(progress.ended), style: 'yellow' } as const]]),
    ...formLines(progress.ended?.askedForms),
  ];
}
