import type { TrainingBatch } from '../../engine.ts';

type Datums = TrainingBatch['datums'];

/** The datums of a batch in messages of at most so many tokens, or of one datum; in order. */
export function inMessages(datums: Datums, tokens: number): { first: Datums[]; last: Datums } {
  const first: Datums[] = [];
  let last: Datums = [];
  let count = 0;
  for (const datum of datums) {
    if (last.length > 0 && count + datum.tokens.length > tokens) {
      first.push(last);
      last = [];
      count = 0;
    }
    last.push(datum);
    count += datum.tokens.length;
  }
  return { first, last };
}
