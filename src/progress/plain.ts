import { printable, printableLines } from '../contract/index.ts';
import { shortPath } from '../util/show-value.ts';
import {
  askedFormLines,
  continuedModelLines,
  count,
  counted,
  coverageText,
  decimal,
  duration,
  endText,
  failureText,
  leadingMetric,
  orDash,
  percent,
  rewrittenText,
  versionLines,
} from './format.ts';
import { alarmTitle } from './live-parts.ts';
import type { StepReport } from './report.ts';
import type { RunEvent } from './run-event.ts';
import {
  advance,
  isEvaluation,
  isPhase,
  newRun,
  type PhaseProgress,
  type RunProgress,
  timeLeftMs,
} from './run-progress.ts';
import type { Output, ProgressView } from './view.ts';

/** Whether a step gets a line: every step up to 20 steps; else the first, every tenth and the last. */
function isReported({ step, steps }: StepReport, first: boolean): boolean {
  return first || steps <= 20 || (step + 1) % 10 === 0 || step + 1 === steps;
}

function phaseText({
  phase,
  done,
  total,
  metrics,
  startedAtMs,
  endedAtMs,
  isStopped,
}: PhaseProgress): string {
  const amount = total === null || total === done ? count(done) : `${count(done)} of ${count(total)}`;
  const took = endedAtMs === null ? '' : duration(endedAtMs - startedAtMs);
  return `${phase}: ${[isStopped ? `stopped at ${amount}` : amount, leadingMetric(metrics), took].filter((part) => part !== '').join(' · ')}`;
}

function stepText(report: StepReport, progress: RunProgress): string {
  const left = timeLeftMs(progress);
  const failed = report.failed + report.cancelled;
  return [
    `${String(report.step + 1).padStart(String(report.steps).length)} of ${counted(report.steps, 'step')}`,
    `reward ${decimal(report.reward)}`,
    ...(report.success === null ? [] : [`success ${percent(report.success).padStart(4)}`]),
    `entropy ${orDash(report.entropy, decimal)}`,
    ...(report.klReference === null ? [] : [`kl ${decimal(report.klReference)}`]),
    `${count(report.tokensPerSecond)} tokens/s`,
    `${decimal(report.seconds, 2)} s`,
    ...(report.staleness.max > 0 ? [`stale ${decimal(report.staleness.mean, 1)}`] : []),
    ...(failed > 0 ? [`${counted(failed, 'rollout')} failed`] : []),
    ...(report.rewrittenHistories > 0 ? [rewrittenText(report.rewrittenHistories)] : []),
    ...(left === null || left === 0 ? [] : [`${duration(left)} left`]),
  ].join('  ');
}

const identity = ({ phase, startedAtMs }: PhaseProgress): string => `${phase}@${startedAtMs}`;

const closedPhases = ({ milestones }: RunProgress): PhaseProgress[] =>
  milestones.filter(isPhase).filter((phase) => phase.endedAtMs !== null);

/** The lines that one event adds, given the run before and after it. */
export function plainLines(before: RunProgress, after: RunProgress, event: RunEvent): string[] {
  const known = new Set(closedPhases(before).map(identity));
  const finished = closedPhases(after).filter((phase) => !known.has(identity(phase)) && !isEvaluation(phase));
  return [...finished.map(phaseText), ...eventLines(before, after, event)];
}

function eventLines(before: RunProgress, after: RunProgress, event: RunEvent): string[] {
  switch (event.type) {
    case 'phase': {
      const begins = before.milestones.length < after.milestones.length && event.done !== event.total;
      return begins ? [`${event.phase} …`] : [];
    }
    case 'run_started':
      return [
        `training ${event.model}: ${counted(event.steps, 'step')} of ${counted(event.groupsPerStep, 'group')} × ${event.rolloutsPerGroup}, in ${shortPath(event.runDirectory)}`,
        ...continuedModelLines(event),
        ...(event.finishedSteps === undefined
          ? []
          : [`resumed after ${counted(event.finishedSteps, 'step')}`]),
        ...versionLines(event),
      ];
    case 'evaluated': {
      const { reward, success } = event.score;
      const share = success === null ? '' : ` · success ${percent(success)}`;
      return [`${event.name}: reward ${decimal(reward)}${share} on ${coverageText(event)} (${event.policy})`];
    }
    case 'step': {
      const isFirst = before.steps.length === (before.run?.finishedSteps ?? 0);
      return isReported(event, isFirst) ? [stepText(event, after)] : [];
    }
    case 'failures':
      return event.kinds.map((kind) => {
        const { what, where } = failureText(event, kind);
        return `! ${what}${where}`;
      });
    case 'alarm':
      return [`! ${alarmTitle(event)}: ${event.message}`, `  Look at: ${event.lookAt}`];
    case 'run_ended':
      return [
        [
          endText(event),
          ...(event.rewrittenHistories === undefined
            ? []
            : [`${rewrittenText(event.rewrittenHistories)} by the chat template`]),
          duration(event.seconds * 1000),
          `record in ${shortPath(event.runDirectory)}`,
        ].join(' · '),
        ...askedFormLines(event.askedForms),
      ];
    default:
      return [];
  }
}

/** A line at the start and end of a phase and about every tenth step, for pipes and logs. */
export function createPlainView(output: Output, now: () => number = () => performance.now()): ProgressView {
  let progress = newRun(now());
  return {
    listen: (event) => {
      const before = progress;
      progress = advance(progress, event, now());
      for (const line of plainLines(before, progress, event)) output.write(`${printable(line)}\n`);
    },
    note: (text) => output.write(`${printableLines(text)}\n`),
    close: () => {},
  };
}
