import type { FaultPoint } from '../driver/fault.ts';

/** One step of each kind, later in the script for each next kind, so that all parts of the script are covered. */
function oneOfEach(points: readonly FaultPoint[]): FaultPoint[] {
  const kinds = [...Map.groupBy(points, ({ name }) => name)];
  return kinds.flatMap(([name, same], index) => {
    // The number of pieces of a body depends on the network.
    const sure = name.startsWith('write ') ? same.slice(0, 3) : same;
    return sure[(index * 7) % sure.length] ?? [];
  });
}

/** The step between the effect of a request and its answer; there is one for each request. */
const unanswered = 'commit update idempotency_keys';

/** One step of each kind, and all steps after which the client has no answer to a request that took effect. */
export function chosenOf(points: readonly FaultPoint[]): FaultPoint[] {
  return [
    ...oneOfEach(points).filter(({ name }) => name !== unanswered),
    ...points.filter(({ name }) => name === unanswered),
  ];
}

/** The distinct names of steps, sorted. */
export const namesOf = (points: readonly FaultPoint[]) => [...new Set(points.map(({ name }) => name))].sort();
