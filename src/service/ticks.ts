import { performance } from 'node:perf_hooks';

/**
 * How much of a tick goes to waiting work, in milliseconds; a single piece may take longer. Node accepts
 * one connection per tick per socket, so longer ticks would let thousands of connections wait for minutes.
 */
const tickMs = 1;

let waiting: (() => void)[] = [];
/** Index in `waiting` of the next piece of work. */
let next = 0;
/** When the current tick's first work began; null before. */
let startedAt: number | null = null;
let isBeginning = false;
/** Whether a connection was accepted in this tick; more may be waiting. */
let isAccepting = false;

/**
 * Call this for every accepted connection. While connections arrive, a tick runs only one piece of work,
 * so that the next tick comes soon and the system does not drop those that wait.
 */
export function accepted(): void {
  isAccepting = true;
}

/**
 * Waits for time for a short piece of work: until the next tick or later if this one is full, else not at all.
 * Without this, a thousand simultaneous requests would run in one tick, in which no stream continues and no
 * connection is accepted. First come, first served.
 */
export function tickTime(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.push(resolve);
  if (!isBeginning) void begin();
  return promise;
}

/** Starts waiting work until the tick is full or nothing waits. */
async function begin(): Promise<void> {
  isBeginning = true;
  let isFirst = startedAt === null;
  if (startedAt === null) {
    startedAt = performance.now();
    setImmediate(endTick);
  }
  const limit = isAccepting ? 0 : tickMs;
  while (next < waiting.length && (isFirst || performance.now() - startedAt < limit)) {
    isFirst = false;
    waiting[next++]?.();
    // Lets the work run up to its first `await`.
    await null;
  }
  isBeginning = false;
  if (next < waiting.length && next < 1000) return;
  waiting = waiting.slice(next);
  next = 0;
}

function endTick(): void {
  startedAt = null;
  if (!isBeginning && next < waiting.length) void begin();
  isAccepting = false;
}
