import { type Signal, useSignal, useSignalEffect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { largestOf, smallestOf } from '../../../util/extremes.ts';
import { colour, theme } from './theme.ts';
import './chart.css';
import { formatCount, formatNumber } from './format.ts';

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

interface ChartProps {
  title: ComponentChildren;
  /** Says the curve in words to screen readers. */
  label: string;
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
  /** Whether lines are named beside their values; false where something else names them. */
  hasLegend?: boolean;
}

/** A curve over steps with the values under the cursor above it: of the last step while there is no cursor. */
export function Chart(props: ChartProps) {
  const { title, label, x, lines, intervals = [], marks = [], cursor, format = formatNumber } = props;
  const { hasLegend = true } = props;
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shown = useSignal<number | null>(null);

  // Another number of lines needs another chart; new values only new data.
  const shape = lines.map(({ label: name, tone, dashed }) => `${name}|${tone}|${dashed}`).join('\n');
  useLayoutEffect(() => {
    if (!holder.current) return;
    const plot = new uPlot(optionsOf(latest, holder.current), dataOf(latest.current), holder.current);
    chart.current = plot;
    const resized = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
    });
    resized.observe(holder.current);
    return () => {
      resized.disconnect();
      plot.destroy();
      chart.current = null;
    };
  }, [shape]);
  useLayoutEffect(() => {
    chart.current?.setData(dataOf({ x, lines }));
  }, [x, lines, intervals, marks]);
  useSignalEffect(() => {
    void theme.value;
    chart.current?.redraw(false, true);
  });
  useSignalEffect(() => {
    const at = cursor.value;
    shown.value = at;
    const plot = chart.current;
    if (!plot) return;
    const left = at === null ? -10 : plot.valToPos(at, 'x');
    if (Math.abs((plot.cursor.left ?? -10) - left) > 0.5) plot.setCursor({ left, top: 0 }, false);
  });

  const at = shown.value;
  const index = at === null ? -1 : x.indexOf(at);
  const interval = at === null ? intervals.at(-1) : intervals.find((one) => one.x === at);
  const mark = marks.filter(({ x: step }) => step === at);
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-values">
          {lines.map((line) => {
            const value =
              index >= 0 ? line.values[index] : at === null ? line.values.findLast(isKnown) : null;
            return (
              <span key={line.label} class="chart-value">
                {lines.length > 1 && (
                  <>
                    <LineSwatch tone={line.tone} dashed={line.dashed} />
                    {hasLegend && <span class="muted">{line.label}</span>}
                  </>
                )}
                <b>{value === null || value === undefined ? '–' : format(value)}</b>
              </span>
            );
          })}
          {interval && (
            <span class="chart-value">
              <i class={`dot ${interval.tone ?? 'series-2'}`} />
              <span class="muted">{interval.label}</span>
              <b>{format(interval.y)}</b>
              {interval.low !== null && interval.high !== null && (
                <span class="muted">
                  {format(interval.low)} to {format(interval.high)}
                </span>
              )}
            </span>
          )}
        </span>
      </figcaption>
      <div ref={holder} class="chart-canvas" role="img" aria-label={label} />
      {mark.length > 0 && <p class="chart-mark tag warn">{mark.map((one) => one.label).join(' · ')}</p>}
    </figure>
  );
}

/** The line of a legend; `swatch` is the class of one that is filled. */
export function LineSwatch({ tone, dashed }: { tone: Tone; dashed?: boolean | undefined }) {
  return <i class={`line-swatch ${tone}${dashed ? ' dashed' : ''}`} aria-hidden="true" />;
}

const isKnown = (value: number | null): boolean => value !== null;

const dataOf = ({ x, lines }: Pick<ChartProps, 'x' | 'lines'>): uPlot.AlignedData => [
  [...x],
  ...lines.map(({ values }) => [...values]),
];

const steps = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10_000, 100_000];

function optionsOf(latest: { current: ChartProps }, holder: HTMLElement): uPlot.Options {
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

const isPossible = (value: number, { range }: ChartProps): boolean =>
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

function rangeOfX(latest: { current: ChartProps }): uPlot.Scale.Range {
  return () => {
    const { x, intervals = [] } = latest.current;
    const all = [x[0] ?? 0, x.at(-1) ?? 1, ...intervals.map((one) => one.x)];
    const min = smallestOf(all);
    return [min, largestOf(all, min + 1)];
  };
}

function rangeOfY(latest: { current: ChartProps }): uPlot.Scale.Range {
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
