import { useSignal, useSignalEffect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { dataOf, isKnown, optionsOf, type Plotted, type Tone } from './plot.ts';
import { theme } from './theme.ts';
import './chart.css';
import { formatNumber } from './format.ts';

interface ChartProps extends Plotted {
  title: ComponentChildren;
  /** Says the curve in words to screen readers. */
  label: string;
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
