import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Longest stretch for which work over a list holds the event loop, unless one item alone takes longer. */
const sliceMs = 8;

/** The items with their places, letting the requests of others have their turn between slices. */
export async function* inSlices<Item>(items: readonly Item[]): AsyncGenerator<[number, Item]> {
  let started = performance.now();
  for (const entry of items.entries()) {
    yield entry;
    if (performance.now() - started < sliceMs) continue;
    await nextTurn();
    started = performance.now();
  }
}
