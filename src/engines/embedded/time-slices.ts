import { setImmediate as nextTurn } from 'node:timers/promises';

const longestTurnMs = 100;

/**
 * Does a piece of work for each item, one after the other. In between the thread hears what else there is, and shows
 * that it is alive.
 */
export async function inTurns<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let began = performance.now();
  for (const item of items) {
    results.push(await work(item));
    if (performance.now() - began < longestTurnMs) continue;
    await nextTurn();
    began = performance.now();
  }
  return results;
}
