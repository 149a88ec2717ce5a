/** Where a stretch of time stands on an axis, as shares of its length. */
interface Extent {
  left: number;
  width: number;
}

/** Times in milliseconds. */
export interface Stretch {
  start: number;
  end: number;
}

/** Places a stretch on the axis of `whole`, cut at its ends; null if it is outside. */
export function placeOn(whole: Stretch, { start, end }: Stretch): Extent | null {
  const length = whole.end - whole.start;
  const from = Math.max(start, whole.start);
  const to = Math.min(end, whole.end);
  if (length <= 0 || to < from || start > whole.end || end < whole.start) return null;
  return { left: (from - whole.start) / length, width: (to - from) / length };
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400].map(
    (s) => s * 1000,
  ),
);

/** Round times for the marks of an axis, from 0 up to `length` ms: at most `most` of them. */
export function ticksOf(length: number, most: number): number[] {
  if (!(length > 0)) return [0];
  const step =
    steps.find((one) => length / one <= most) ?? Math.ceil(length / most / 86_400_000) * 86_400_000;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, at) => at * step);
}

/** A time of the axis in its unit: `0`, `250 ms`, `1.5 s`, `3 min`, `1:30 h`. */
export function tickLabel(ms: number): string {
  if (ms === 0) return '0';
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${ms / 1000} s`;
  const minutes = ms / 60_000;
  if (minutes < 60)
    return Number.isInteger(minutes) ? `${minutes} min` : `${Math.floor(minutes)}:${pad((ms / 1000) % 60)}`;
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)}:${pad(minutes % 60)} h`;
}

const pad = (value: number): string => String(Math.round(value)).padStart(2, '0');

/** The middle of sorted numbers; 0 without any. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  if (sorted.length === 0) return 0;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** A rollout is a straggler if it takes more than this many times as long as the median. */
export const stragglerFactor = 2;

/**
 * The parts of `whole` in which no stretch runs, from `least` ms: when a trainer is idle. Stretches may overlap.
 */
export function gapsIn(whole: Stretch, stretches: readonly Stretch[], least = 0): Stretch[] {
  const gaps: Stretch[] = [];
  let free = whole.start;
  for (const { start, end } of [...stretches].sort((a, b) => a.start - b.start)) {
    if (start - free > least) gaps.push({ start: free, end: Math.min(start, whole.end) });
    free = Math.max(free, end);
  }
  if (whole.end - free > least) gaps.push({ start: free, end: whole.end });
  return gaps.filter(({ start, end }) => end > start);
}
