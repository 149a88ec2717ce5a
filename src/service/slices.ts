import { performance } from 'node:perf_hooks';

/** Longest stretch of a turn of the event loop that goes to long work, unless one piece of it alone takes longer. */
const turnMs = 8;

/** When the long work of this turn of the loop began; null before. Whoever works shares it. */
let began: number | null = null;
const waiting: (() => void)[] = [];

function begin(): void {
  began = performance.now();
  setImmediate(endTurn);
}

const isOver = () => began !== null && performance.now() - began >= turnMs;

function endTurn(): void {
  began = null;
  if (waiting.length === 0) return;
  begin();
  letOn();
}

/** Lets those that wait go on, one after the other, until the turn is used up. */
function letOn(): void {
  if (isOver()) return;
  const next = waiting.shift();
  if (!next) return;
  next();
  // In a tick behind all that the one does at once, so that it counts.
  queueMicrotask(() => process.nextTick(letOn));
}

/**
 * Cuts long work into slices, between which the requests of others have their turn. What a turn of the event loop has
 * for long work is shared by all who work: those who come when it is used up wait in line, and go on as far as the next turns have room.
 */
export class Slices {
  constructor() {
    if (began === null) begin();
  }

  /** Whether it is time for others. */
  get over(): boolean {
    if (began === null) begin();
    return isOver();
  }

  /** Lets the others have their turn where it is time. To be called before and after each piece of work. */
  pause(): Promise<void> {
    return this.over ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve();
  }
}

/** The items with their places, letting the requests of others have their turn between slices. */
export async function* inSlices<Item>(items: readonly Item[]): AsyncGenerator<[number, Item]> {
  const slices = new Slices();
  for (const [index, item] of items.entries()) {
    if (index > 0 && slices.over) await slices.pause();
    yield [index, item];
  }
}
