import { printable } from '../contract/index.ts';
import { largestOf, smallestOf } from '../util/extremes.ts';
import { failureText } from './format.ts';
import type { Alarm } from './report.ts';
import type { RunProgress } from './run-progress.ts';
import { type Line, type Style, wrap } from './text.ts';

/** Most alarms that a live view shows. */
const shownAlarms = 3;

/** The text before an alarm's message: `step 12, no signal: replies alike`. What is no fault is not called one. */
export function alarmTitle({ kind, cause, step }: Pick<Alarm, 'kind' | 'cause' | 'step'>): string {
  if (kind === 'no_signal' && cause === 'solved') return `step ${step}, all scenarios solved`;
  const name = cause === undefined || cause === 'unknown' ? kind : `${kind}: ${cause}`;
  return `step ${step}, ${name.replaceAll('_', ' ')}`;
}

/** The latest kind of failure: its message and its location. */
export function failureLines(failure: RunProgress['failure'], columns: number): Line[] {
  if (failure === null) return [];
  const { what, where } = failureText(failure, failure.kind);
  return [
    [],
    ...inFull(`! ${what}`, 'yellow', columns),
    ...(where === '' ? [] : inFull(where.trim(), 'dim', columns)),
  ];
}

function inFull(text: string, style: Style, columns: number): Line[] {
  return wrap(printable(text), Math.max(8, columns - 2)).map((part) => [{ text: `  ${part}`, style }]);
}

/** A line for each of the latest alarms, and the last one in full. */
export function alarmLines(alarms: readonly Alarm[], columns: number): Line[] {
  const newest = alarms.at(-1);
  if (newest === undefined) return [];
  return [
    [],
    ...alarms.slice(-shownAlarms, -1).map(
      (alarm): Line => [
        { text: `! ${alarmTitle(alarm)}  `, style: 'yellow' },
        { text: printable(alarm.message), style: 'dim' },
      ],
    ),
    [{ text: `! ${alarmTitle(newest)}`, style: 'yellow' }],
    ...inFull(newest.message, 'yellow', columns),
    ...inFull(newest.lookAt, 'dim', columns),
  ];
}

const blocks = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const;

/** Means of equal intervals, so that a long series keeps its shape in few cells. */
function resample(values: readonly number[], cells: number): number[] {
  if (values.length <= cells) return [...values];
  return Array.from({ length: cells }, (_, cell) => {
    const from = Math.floor((cell * values.length) / cells);
    const to = Math.floor(((cell + 1) * values.length) / cells);
    const stretch = values.slice(from, Math.max(to, from + 1));
    return stretch.reduce((sum, value) => sum + value, 0) / stretch.length;
  });
}

/** A series as a curve of at most `cells` characters. The scale includes 0 and 1. */
export function sparkline(values: readonly number[], cells: number): string {
  if (values.length === 0 || cells <= 0) return '';
  const points = resample(values, cells);
  const low = smallestOf(points, 0);
  const high = largestOf(points, 1);
  return points
    .map((point) => {
      const level = Math.floor(((point - low) / (high - low)) * blocks.length);
      return blocks[Math.min(blocks.length - 1, Math.max(0, level))];
    })
    .join('');
}

/** A bar of `cells` characters, empty for a total of 0 or null. */
export function bar(done: number, total: number | null, cells: number): { filled: string; rest: string } {
  const share = total ? Math.min(1, Math.max(0, done / total)) : 0;
  const filled = Math.round(share * Math.max(0, cells));
  return { filled: '█'.repeat(filled), rest: '░'.repeat(Math.max(0, cells - filled)) };
}
