import { performance } from 'node:perf_hooks';

/** Longest stretch for which long work holds the event loop, unless one piece of it alone takes longer. */
const sliceMs = 8;

const waiting: (() => void)[] = [];

/** Resolves in a turn of the event loop in which no other long work goes on: those of several requests take turns. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(giveTurn);
  });
}

function giveTurn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(giveTurn);
}

/** Cuts long work into slices, between which the requests of others have their turn. */
export class Slices {
  #started = performance.now();

  /** Whether it is time for others. */
  get over(): boolean {
    return performance.now() - this.#started >= sliceMs;
  }

  /** Lets the others have their turn where it is time. To be called after each piece of work. */
  async pause(): Promise<void> {
    if (!this.over) return;
    await nextTurn();
    this.#started = performance.now();
  }
}

/** The items with their places, letting the requests of others have their turn between slices. */
export async function* inSlices<Item>(items: readonly Item[]): AsyncGenerator<[number, Item]> {
  const slices = new Slices();
  for (const entry of items.entries()) {
    yield entry;
    if (slices.over) await slices.pause();
  }
}
