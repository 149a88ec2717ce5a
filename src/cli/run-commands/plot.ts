import { MartingaleError, printable } from '../../contract/index.ts';
import type { StepReport } from '../../progress/index.ts';
import { largestOf, smallestOf } from '../../util/extremes.ts';
import { meanOrNull } from '../../util/sums.ts';
import { badRun, chooseRun } from './chosen-run.ts';
import { print, printJson, type RunFlags } from './print.ts';

/** The figures of a report that are one number, by the path that names them: `reward`, `replyTokens.mean`. */
export function figuresOf(report: StepReport): Map<string, number> {
  const figures = new Map<string, number>();
  const visit = (value: unknown, path: string) => {
    if (typeof value === 'number') figures.set(path, value);
    else if (typeof value === 'object' && value !== null && !Array.isArray(value))
      for (const [name, inner] of Object.entries(value)) visit(inner, path === '' ? name : `${path}.${name}`);
  };
  visit(report, '');
  figures.delete('step');
  figures.delete('steps');
  return figures;
}

const eighths = ' ▁▂▃▄▅▆▇█';

interface PlotPoint {
  step: number;
  /** Null for a step that does not have the figure. */
  value: number | null;
}

/**
 * A curve as lines of blocks, with its range at the left and its steps below. Columns are means of as many steps. One
 * whose steps have no value is a gap, and the title tells how many steps have none.
 */
export function plotLines(
  name: string,
  points: readonly PlotPoint[],
  { columns, rows }: { columns: number; rows: number },
): string[] {
  const values = points.flatMap(({ value }) => value ?? []);
  const [low, high] = [smallestOf(values), largestOf(values)];
  const labels = [high, (low + high) / 2, low].map((value) => Number(value.toPrecision(3)).toString());
  const margin = largestOf(labels.map(({ length }) => length));
  const count = Math.max(1, Math.min(columns - margin - 2, points.length));
  const means = Array.from({ length: count }, (_, column) => {
    const from = Math.floor((column * points.length) / count);
    const end = Math.max(from + 1, Math.floor(((column + 1) * points.length) / count));
    const part = points.slice(from, end).flatMap(({ value }) => value ?? []);
    return meanOrNull(part);
  });
  const heights = means.map((value) =>
    value === null ? null : (high === low ? 0.5 : (value - low) / (high - low)) * rows * 8,
  );
  const lines = Array.from({ length: rows }, (_, row) => {
    const base = (rows - 1 - row) * 8;
    const label = row === 0 ? labels[0] : row === rows - 1 ? labels[2] : row === rows >> 1 ? labels[1] : '';
    const bars = heights.map((height) =>
      height === null
        ? ' '
        : eighths[Math.round(Math.min(8, Math.max(row === rows - 1 ? 1 : 0, height - base)))],
    );
    return `${(label ?? '').padStart(margin)} │${bars.join('')}`;
  });
  const [first, last] = [points[0]?.step ?? 0, points.at(-1)?.step ?? 0];
  const axis = `${first}${String(last).padStart(Math.max(1, count - String(first).length))}`;
  const without = points.length - values.length;
  return [
    `${name}, last ${Number((values.at(-1) ?? 0).toPrecision(4))}${without > 0 ? `, no value in ${without} of ${points.length} steps` : ''}`,
    ...lines,
    `${' '.repeat(margin + 2)}${axis}`,
  ];
}

/** `plot reward entropy` draws the newest run, as no run is called `reward`. */
async function chooseRunOrNewest(name: string | undefined, folder: string) {
  if (name !== undefined)
    try {
      return { ...(await chooseRun(name, folder)), isNamed: true };
    } catch (error) {
      const newest = await chooseRun(undefined, folder).catch(() => null);
      const [report] = newest ? (await newest.views.run(newest.row.id)).reports : [];
      const known = report ? figuresOf(report) : new Map();
      if (!newest || !(known.has(name) || known.has(`metrics.${name}`))) throw error;
      return { ...newest, isNamed: false };
    }
  return { ...(await chooseRun(undefined, folder)), isNamed: false };
}

/** `martingale plot`. */
export async function plot(
  name: string | undefined,
  metrics: readonly string[],
  { in: folder, json }: RunFlags,
): Promise<void> {
  const { views, row, isNamed } = await chooseRunOrNewest(name, folder);
  const { reports } = await views.run(row.id);
  if (reports.length === 0) throw badRun(`${row.name} has no finished step yet`);
  const figures = reports.map((report) => ({ step: report.step, values: figuresOf(report) }));
  const known = [...new Set(figures.flatMap(({ values }) => [...values.keys()]))].sort();
  const named = isNamed ? metrics : [...(name === undefined ? [] : [name]), ...metrics];
  const asked = named.length > 0 ? named : ['reward', ...(known.includes('success') ? ['success'] : [])];
  const curves = asked.map((path) => {
    const found = known.includes(path) ? path : `metrics.${path}`;
    const points = figures.map(({ step, values }) => ({ step, value: values.get(found) ?? null }));
    if (known.includes(found)) return { name: path, points };
    throw new MartingaleError(
      'bad_option',
      `the run has no figure ${printable(path)}: it has ${known.join(', ')}`,
    );
  });
  if (json) return printJson({ run: row.id, curves });
  const size = { columns: process.stdout.columns ?? 80, rows: 8 };
  print(
    curves.flatMap(({ name: title, points }, at) => [
      ...(at > 0 ? [''] : []),
      ...plotLines(title, points, size),
    ]),
  );
}
