import { printable } from '../contract/index.ts';
import type { Alarm } from './alarm.ts';
import { failureText } from './format.ts';
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
