import type { CallersFigures } from './callers.ts';
import type { ProcessFigures } from './meter.ts';
import type { ServiceFigures } from './service.ts';

interface Row {
  seconds: number;
  service: ServiceFigures;
  crowds: CallersFigures[];
}

const megabytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)}`;
const round = (value: number) => `${Math.round(value)}`;

const columns = [
  'time s,answered,a second,tokens/s,in flight,429,5xx,oldest s,longest s',
  'service rss MB,heap MB,loop p50 ms,p99,max,own max',
  'harness rss MB,heap MB,loop p50 ms,p99,max,own max',
]
  .join(',')
  .split(',');

/** A table that prints its rows as they are added. */
export function printed() {
  const rows: Row[] = [];
  const began = performance.now();
  const write = (cells: readonly string[]) => process.stdout.write(`| ${cells.join(' | ')} |\n`);
  return {
    rows,
    add(service: ServiceFigures, crowds: CallersFigures[]): void {
      if (rows.length === 0) {
        write(columns);
        write(columns.map(() => '---:'));
      }
      const before = rows.at(-1);
      const row = { seconds: (performance.now() - began) / 1000, service, crowds };
      rows.push(row);
      write(cellsOf(row, before));
    },
  };
}

function cellsOf(row: Row, before: Row | undefined): string[] {
  const { seconds, service, crowds } = row;
  const past = seconds - (before?.seconds ?? 0);
  const sum = (of: Row | undefined, what: 'answered' | 'tokens' | 'inFlight') =>
    of?.crowds.reduce((total, crowd) => total + crowd[what], 0) ?? 0;
  const rate = (what: 'answered' | 'tokens') => round((sum(row, what) - sum(before, what)) / past);
  const failed = Object.entries(service.statuses).filter(([status]) => status >= '500');
  const [harness] = crowds;
  return [
    ...[
      round(seconds),
      `${sum(row, 'answered')}`,
      rate('answered'),
      rate('tokens'),
      `${sum(row, 'inFlight')}`,
    ],
    ...[`${service.statuses[429] ?? 0}`, `${failed.reduce((total, [, count]) => total + count, 0)}`],
    round(service.oldestMs / 1000),
    round(Math.max(...crowds.map(({ longestMs }) => longestMs)) / 1000),
    ...processCells(service),
    ...(harness ? processCells(harness) : []),
  ];
}

function processCells({ rss, heap, loop }: ProcessFigures): string[] {
  return [
    megabytes(rss),
    megabytes(heap),
    round(loop.p50),
    round(loop.p99),
    round(loop.max),
    round(loop.busyMax),
  ];
}
