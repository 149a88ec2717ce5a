import { performance } from 'node:perf_hooks';

/**
 * Longest stretch of a turn of the event loop that goes to pieces of work, unless one alone takes longer. In each turn
 * one connection is accepted: a longer stretch would let thousands of them wait for minutes.
 */
const turnMs = 1;

let waiting: (() => void)[] = [];
/** Place in `waiting` of the next to begin. */
let next = 0;
/** When the turn of the event loop began that pieces of work are begun in; null before the first of a turn. */
let began: number | null = null;
let isBeginning = false;
/** Whether a connection was accepted in this turn: more may wait. */
let isAccepting = false;

/**
 * To be called when a connection has been accepted. Node accepts one in a turn: as long as some wait, a turn has room
 * for one piece of work, so that the next turn comes soon, and the system does not cut those that wait too long.
 */
export function accepted(): void {
  isAccepting = true;
}

/**
 * Resolves when it is time for a short piece of work: at once, unless others have filled this turn of the event loop.
 * A thousand requests that come at the same moment would otherwise be handled in one turn, in which nothing else
 * happens: no stream goes on, and nobody is accepted. First come, first served.
 */
export function turn(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.push(resolve);
  if (!isBeginning) void begin();
  return promise;
}

/** Lets those that wait begin, one after the other, until the turn is full or nobody waits. */
async function begin(): Promise<void> {
  isBeginning = true;
  let isFirst = began === null;
  if (began === null) {
    began = performance.now();
    setImmediate(endTurn);
  }
  const limit = isAccepting ? 0 : turnMs;
  while (next < waiting.length && (isFirst || performance.now() - began < limit)) {
    isFirst = false;
    waiting[next++]?.();
    // What it does before it waits for something is done by then.
    await null;
  }
  isBeginning = false;
  if (next < waiting.length && next < 1000) return;
  waiting = waiting.slice(next);
  next = 0;
}

function endTurn(): void {
  began = null;
  if (!isBeginning && next < waiting.length) void begin();
  isAccepting = false;
}
