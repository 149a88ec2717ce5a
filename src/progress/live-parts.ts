import { printable } from '../contract/index.ts';
import { largestOf, smallestOf } from '../util/extremes.ts';
import { meanOf } from '../util/sums.ts';
import { failureText } from './format.ts';
import type { Alarm } from './report.ts';
import type { RunProgress } from './run-progress.ts';
import { displayWidth, type Line, lineWidth, pad, type Style, truncate, wrap } from './text.ts';

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
    return meanOf(stretch);
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

export const labelWidth = 12;
const figureWidth = 10;
const nameWidth = 18;

/** A line with text at both ends; if both do not fit, only the left one. */
export function spread(left: Line, right: Line, columns: number): Line {
  const space = columns - lineWidth(left) - lineWidth(right);
  return space < 2 ? left : [...left, { text: ' '.repeat(space) }, ...right];
}

function barCells(columns: number): number {
  return Math.max(4, Math.min(40, columns - labelWidth - figureWidth - 2));
}

/** A bar of progress with a note after it. */
export function barLine(
  label: string,
  done: number,
  total: number | null,
  note: string,
  columns: number,
): Line {
  // In a narrow terminal the note, which has the count, goes before the bar.
  const cells = Math.min(barCells(columns), columns - labelWidth - 1 - displayWidth(note));
  const { filled, rest } = bar(done, total, Math.max(0, cells));
  return [
    { text: `  ${pad(label, labelWidth - 2)}`, style: 'dim' },
    { text: filled, style: 'cyan' },
    { text: rest, style: 'dim' },
    { text: ` ${note}` },
  ];
}

/** A curve as bars of eighths, with a figure after it. */
export function curveLine(label: string, values: readonly number[], figure: string, columns: number): Line {
  const cells = barCells(columns);
  return [
    { text: `  ${pad(label, labelWidth - 2)}`, style: 'dim' },
    { text: pad(sparkline(values, cells), cells), style: 'green' },
    { text: ` ${figure}`, style: 'bold' },
  ];
}

/** A name, shortened in a narrow terminal so that what follows is whole. */
export function nameCell(name: string, next: string, columns: number): Line[number] {
  const width = Math.max(nameWidth, displayWidth(name) + 1);
  const room = Math.max(2, Math.min(width, columns - 3 - displayWidth(next)));
  return { text: pad(truncate(name, room - 1), room) };
}
