import type { TimeSlices } from '../../util/time-slices.ts';
import type { ByteSource, Range } from './byte-source.ts';
import { type Child, ChildScanner } from './children.ts';

/** Neighbours, from the first's beginning to the last's end no longer than was asked; or one child that is longer. */
export interface Run extends Range {
  /** Place of the first among all children. */
  first: number;
  /** How many they are. */
  count: number;
  /** The first, or all of them where that was asked. */
  children: Child[];
}

export interface RunOptions {
  longest: number;
  slices: TimeSlices;
  /** Whether runs name each child. Default: the first alone, of what may be a million of them. */
  keepsAll?: boolean;
}

/** The children of an object or list in runs, so that small ones are read together. */
export async function* runsOf(
  source: ByteSource,
  range: Range,
  { longest, slices, keepsAll = false }: RunOptions,
): AsyncGenerator<Run> {
  const ended: Run[] = [];
  let run: Run | null = null;
  let count = 0;
  const scanner = new ChildScanner(range.start, (start, end, key) => {
    const from = key?.start ?? start;
    if (run && end - run.start <= longest) {
      run.end = end;
      run.count++;
      if (keepsAll) run.children.push({ start, end, key });
    } else {
      if (run) ended.push(run);
      run = { start: from, end, first: count, count: 1, children: [{ start, end, key }] };
    }
    count++;
  });
  for await (const piece of source.pieces(range)) {
    if (slices.over) await slices.pause();
    scanner.push(piece);
    for (const one of ended.splice(0)) yield one;
  }
  scanner.end();
  if (run) yield run;
}
