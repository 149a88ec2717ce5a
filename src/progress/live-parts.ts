import { printable } from '../contract/index.ts';
import { failureText } from './format.ts';
import type { Alarm } from './run-event.ts';
import type { RunProgress } from './run-progress.ts';
import { type Line, type Style, wrap } from './text.ts';

/** Alarms that a live view shows at a time. */
const shownAlarms = 3;

/** What an alarm is called before its message: `step 12, no signal: replies alike`. */
export function alarmTitle({ kind, cause, step }: Alarm): string {
  const name = cause === undefined || cause === 'unknown' ? kind : `${kind}: ${cause}`;
  return `step ${step + 1}, ${name.replaceAll('_', ' ')}`;
}

/** The newest kind of failure: what was said, and where it was thrown. */
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

/** A line for each of the newest alarms, and the very newest in full. */
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

/** Means of equal stretches, so that a long series keeps its shape in few cells. */
function resample(values: readonly number[], cells: number): number[] {
  if (values.length <= cells) return [...values];
  return Array.from({ length: cells }, (_, cell) => {
    const from = Math.floor((cell * values.length) / cells);
    const to = Math.floor(((cell + 1) * values.length) / cells);
    const stretch = values.slice(from, Math.max(to, from + 1));
    return stretch.reduce((sum, value) => sum + value, 0) / stretch.length;
  });
}

/** A series as a curve of at most `cells` characters, from 0 to 1 unless its values lie outside. */
export function sparkline(values: readonly number[], cells: number): string {
  if (values.length === 0 || cells <= 0) return '';
  const points = resample(values, cells);
  const low = Math.min(0, ...points);
  const high = Math.max(1, ...points);
  return points
    .map((point) => {
      const level = Math.floor(((point - low) / (high - low)) * blocks.length);
      return blocks[Math.min(blocks.length - 1, Math.max(0, level))];
    })
    .join('');
}

/** A bar of `cells` characters; a total of 0 or null draws it empty. */
export function bar(done: number, total: number | null, cells: number): { filled: string; rest: string } {
  const share = total ? Math.min(1, Math.max(0, done / total)) : 0;
  const filled = Math.round(share * Math.max(0, cells));
  return { filled: '█'.repeat(filled), rest: '░'.repeat(Math.max(0, cells - filled)) };
}
