import { performance } from 'node:perf_hooks';

/** Milliseconds of each tick for all long work together. A single piece of work may take longer. */
const budgetMs = 8;

/** When the long work of this tick began; null if none has. */
let startedAt: number | null = null;
const waiting: (() => void)[] = [];

function beginTick(): void {
  startedAt = performance.now();
  setImmediate(endTick);
}

const isUsedUp = () => startedAt !== null && performance.now() - startedAt >= budgetMs;

function endTick(): void {
  startedAt = null;
  if (waiting.length === 0) return;
  beginTick();
  resumeNext();
}

/** Resumes waiting work in order until the budget of this tick is used up. */
function resumeNext(): void {
  if (isUsedUp()) return;
  const next = waiting.shift();
  if (!next) return;
  next();
  // Runs after all synchronous code of the resumed work, so that its time counts.
  queueMicrotask(() => process.nextTick(resumeNext));
}

/**
 * Cuts long work into slices, so that other requests proceed in between. All time slices of a thread share one budget
 * per tick of the event loop (8 ms). Work that exceeds it resumes on a later tick, first come, first served.
 *
 * @example
 * const slices = new TimeSlices();
 * for (const item of items) {
 *   if (slices.over) await slices.pause();
 *   work(item);
 * }
 */
export class TimeSlices {
  constructor() {
    if (startedAt === null) beginTick();
  }

  /** Whether the budget of this tick is used up. */
  get over(): boolean {
    if (startedAt === null) beginTick();
    return isUsedUp();
  }

  /** Waits for a later tick if the budget is used up. Call it before and after each piece of work. */
  pause(): Promise<void> {
    return this.over ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve();
  }
}

/** The items with their indices, with a pause in between when the budget of the tick is used up. */
export async function* inTimeSlices<Item>(items: readonly Item[]): AsyncGenerator<[number, Item], undefined> {
  const slices = new TimeSlices();
  for (const [index, item] of items.entries()) {
    if (index > 0 && slices.over) await slices.pause();
    yield [index, item];
  }
}
