import type { Slices } from '../slices.ts';
import type { ByteSource, Range } from './byte-source.ts';
import { type Child, childrenOf } from './children.ts';

/** Neighbours, from the first's beginning to the last's end no longer than was asked; or one child that is longer. */
export interface Run extends Range {
  children: Child[];
  /** Place of the first among all children. */
  first: number;
}

/** The children of an object or list in runs, so that small ones are read together. */
export async function* runsOf(
  source: ByteSource,
  range: Range,
  { longest, slices }: { longest: number; slices: Slices },
): AsyncGenerator<Run> {
  let run: Run | null = null;
  let count = 0;
  for await (const child of childrenOf(source, range, slices)) {
    const start = child.key?.start ?? child.start;
    if (run && child.end - run.start <= longest) {
      run.children.push(child);
      run.end = child.end;
    } else {
      if (run) yield run;
      run = { start, end: child.end, children: [child], first: count };
    }
    count++;
  }
  if (run) yield run;
}
