import type { Signal } from '@preact/signals';
import uPlot from 'uplot';
import { largestOf, smallestOf } from '../../../util/extremes.ts';
import { formatCount, formatNumber } from './format.ts';
import { colour } from './theme.ts';

/** The colours of series; each differs in lightness too. `muted` is for what stands behind. */
export type Tone = 'series-1' | 'series-2' | 'series-3' | 'series-4' | 'muted';

export interface Line {
  label: string;
  /** One for each place of `x`; null where there is none. */
  values: readonly (number | null)[];
  tone: Tone;
  /** Drawn in dashes, to be told apart without colours. */
  dashed?: boolean;
}

/** A measured point with its interval, drawn as a dot with whiskers. */
export interface Interval {
  x: number;
  y: number;
  low: number | null;
  high: number | null;
  label: string;
  tone?: Tone;
}

/** Something that happened at a step. */
interface Mark {
  x: number;
  label: string;
}

/** What a chart draws, and what it tells. */
export interface Plotted {
  /** Steps, ascending. */
  x: readonly number[];
  lines: readonly Line[];
  intervals?: readonly Interval[];
  marks?: readonly Mark[];
  /** The step under the cursor, which all charts of a panel share. */
  cursor: Signal<number | null>;
  format?: (value: number) => string;
  /** The smallest and the largest value that there can be: the axis has no others. Default: any number. */
  range?: readonly [number, number] | undefined;
  height?: number;
  /** Called with the step that was clicked. */
  onPick?: (x: number) => void;
}

export const isKnown = (value: number | null): boolean => value !== null;

export const dataOf = ({ x, lines }: Pick<Plotted, 'x' | 'lines'>): uPlot.AlignedData => [
  [...x],
  ...lines.map(({ values }) => [...values]),
];

const steps = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10_000, 100_000];

/** The options of uPlot. They read the latest values, so that new values need no new plot. */
export function optionsOf(latest: { current: Plotted }, holder: HTMLElement): uPlot.Options {
  const { lines, height = 136, onPick } = latest.current;
  const axis: uPlot.Axis = {
    stroke: () => colour('muted'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: () => colour('line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: Math.max(80, Math.floor(holder.clientWidth)),
    height,
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 7, width: 1.5 },
    },
    scales: { x: { time: false, range: rangeOfX(latest) }, y: { range: rangeOfY(latest) } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, gap: 4, incrs: steps, space: 48 },
      {
        ...axis,
        size: 48,
        gap: 4,
        space: 32,
        filter: (_, splits) => splits.map((value) => (isPossible(value, latest.current) ? value : null)),
        values: (_, splits) =>
          splits.map((value) => (value === null ? '' : tick(value, latest.current.format))),
      },
    ],
    series: [
      {},
      ...lines.map(
        ({ tone, dashed }): uPlot.Series => ({
          stroke: () => colour(tone),
          width: 1.5,
          ...(dashed ? { dash: [4, 3] } : {}),
          points: { show: (_, series) => isSingle(latest.current.lines[series - 1]?.values ?? []), size: 5 },
          spanGaps: false,
        }),
      ),
    ],
    hooks: {
      drawClear: [(plot) => drawMarks(plot, latest.current.marks ?? [])],
      draw: [(plot) => drawIntervals(plot, latest.current.intervals ?? [])],
      ready: [
        ({ over }) => {
          // The mouse moves the shared cursor; the charts follow it.
          over.addEventListener('mouseleave', () => {
            latest.current.cursor.value = null;
          });
          if (onPick) over.classList.add('picks');
          over.addEventListener('click', () => {
            const at = latest.current.cursor.peek();
            if (at !== null) latest.current.onPick?.(at);
          });
        },
      ],
      setCursor: [
        ({ cursor: { idx, left = -1 } }) => {
          const at = latest.current.x[idx ?? -1];
          if (left >= 0 && at !== undefined) latest.current.cursor.value = at;
        },
      ],
    },
  };
}

const isPossible = (value: number, { range }: Plotted): boolean =>
  !range || (value >= range[0] && value <= range[1]);

/** A value of the axis in few characters. */
function tick(value: number, format: ((value: number) => string) | undefined): string {
  const exact = Number(value.toPrecision(6));
  if (format && format !== formatNumber) return format(exact);
  const size = Math.abs(exact);
  if (size > 0 && size < 0.001) return exact.toExponential().replaceAll('-', '−');
  return size >= 1000 ? formatCount(exact) : String(exact).replace('-', '−');
}

/** A curve of a single point would not show. */
const isSingle = (values: readonly (number | null)[]): boolean => values.filter(isKnown).length < 2;

function rangeOfX(latest: { current: Plotted }): uPlot.Scale.Range {
  return () => {
    const { x, intervals = [] } = latest.current;
    const all = [x[0] ?? 0, x.at(-1) ?? 1, ...intervals.map((one) => one.x)];
    const min = smallestOf(all);
    return [min, largestOf(all, min + 1)];
  };
}

function rangeOfY(latest: { current: Plotted }): uPlot.Scale.Range {
  return (_, low, high) => {
    const ends = (latest.current.intervals ?? []).flatMap((one) => [
      one.y,
      one.low ?? one.y,
      one.high ?? one.y,
    ]);
    const all = [...ends, ...[low, high].filter((value) => value !== null && value !== undefined)];
    if (all.length === 0) return [0, 1];
    const min = smallestOf(all);
    const max = largestOf(all);
    // A line that never moves has its distance to zero below it; a larger value may be none that there can be.
    if (min === max) return min === 0 ? [0, 1] : [Math.min(0, min * 1.08), Math.max(0, min * 1.08)];
    return uPlot.rangeNum(min, max, 0.08, true);
  };
}

/** Alarms: a thin line at their step, with a triangle at the top. */
function drawMarks({ ctx, bbox, valToPos }: uPlot, marks: readonly Mark[]): void {
  ctx.save();
  ctx.strokeStyle = colour('warn');
  ctx.fillStyle = colour('warn');
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  const size = 4 * devicePixelRatio;
  for (const x of new Set(marks.map((mark) => mark.x))) {
    const left = Math.round(valToPos(x, 'x', true));
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(left - size, bbox.top - size);
    ctx.lineTo(left + size, bbox.top - size);
    ctx.lineTo(left, bbox.top + size);
    ctx.fill();
  }
  ctx.restore();
}

function drawIntervals({ ctx, valToPos }: uPlot, intervals: readonly Interval[]): void {
  ctx.save();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const { x, y, low, high, tone = 'series-2' } of intervals) {
    const left = valToPos(x, 'x', true);
    ctx.strokeStyle = colour(tone);
    ctx.fillStyle = colour(tone);
    if (low !== null && high !== null) {
      const cap = 3 * devicePixelRatio;
      ctx.beginPath();
      for (const end of [low, high].map((value) => valToPos(value, 'y', true))) {
        ctx.moveTo(left - cap, end);
        ctx.lineTo(left + cap, end);
      }
      ctx.moveTo(left, valToPos(low, 'y', true));
      ctx.lineTo(left, valToPos(high, 'y', true));
      ctx.stroke();
    }
    ctx.beginPath();
    ctx.arc(left, valToPos(y, 'y', true), 3 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.restore();
}
