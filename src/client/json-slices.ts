import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Longest stretch for which writing JSON holds the event loop, unless one item alone takes longer. */
const sliceMs = 8;

/**
 * JSON of `{...head, [name]: items}`, written item by item, with the event loop let go between slices: the
 * trajectories of a step can be many megabytes, and other rollouts go on meanwhile. Rejects with the signal's reason.
 */
export async function jsonInSlices(
  head: object,
  name: string,
  items: readonly unknown[],
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const opening = JSON.stringify(head).slice(0, -1);
  const pieces = [`${opening}${opening.length > 1 ? ',' : ''}${JSON.stringify(name)}:[`];
  let started = performance.now();
  for (const [index, item] of items.entries()) {
    pieces.push(`${index === 0 ? '' : ','}${JSON.stringify(item)}`);
    if (performance.now() - started > sliceMs) {
      await nextTurn();
      signal?.throwIfAborted();
      started = performance.now();
    }
  }
  pieces.push(']}');
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece)));
}
