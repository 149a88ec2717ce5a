import type { FaultPoint } from '../driver/fault.ts';

/** Of each kind of step one, further on for each kind, so that all stretches of the script have their turn. */
function oneOfEach(points: readonly FaultPoint[]): FaultPoint[] {
  const kinds = [...Map.groupBy(points, ({ name }) => name)];
  return kinds.flatMap(([name, same], index) => {
    // In how many pieces a body comes is up to the network.
    const sure = name.startsWith('write ') ? same.slice(0, 3) : same;
    return sure[(index * 7) % sure.length] ?? [];
  });
}

/** Between a thing that a request made and its answer: one for each request. */
const unanswered = 'commit update idempotency_keys';

/** One of each kind, and all those after which the client does not know that it got what it asked for. */
export function chosenOf(points: readonly FaultPoint[]): FaultPoint[] {
  return [
    ...oneOfEach(points).filter(({ name }) => name !== unanswered),
    ...points.filter(({ name }) => name === unanswered),
  ];
}

/** The names of steps, in order of the alphabet, each once. */
export const namesOf = (points: readonly FaultPoint[]) => [...new Set(points.map(({ name }) => name))].sort();

/** Does things two at a time, and none any more once one has failed. */
export async function byTwo<Item>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  const left = [...items.entries()].reverse();
  const worker = async () => {
    for (let next = left.pop(); next; next = left.pop()) {
      const [index, item] = next;
      await work(item, index).catch((error: unknown) => {
        left.length = 0;
        throw error;
      });
    }
  };
  // Both have ended before the folders of either go.
  for (const ended of await Promise.allSettled([worker(), worker()]))
    if (ended.status === 'rejected') throw ended.reason;
}
