import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { jsonParts } from './json-parts.ts';

/** Longest stretch for which writing JSON holds the event loop. */
const sliceMs = 8;

/** Characters of text that are turned into bytes together. */
const gathered = 65_536;

/**
 * JSON of `{...head, [name]: items}` in pieces, written part by part, with the event loop let go between slices: the
 * trajectories of a step can be a hundred megabytes, and other rollouts go on meanwhile. The pieces are the only copy.
 * Rejects with the signal's reason.
 */
export async function jsonInSlices(
  head: object,
  name: string,
  items: readonly unknown[],
  signal?: AbortSignal,
): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  let text = '';
  let started = performance.now();
  for (const part of jsonParts({ ...head, [name]: items })) {
    text += part;
    if (text.length >= gathered) {
      pieces.push(Buffer.from(text));
      text = '';
    }
    if (performance.now() - started <= sliceMs) continue;
    await nextTurn();
    signal?.throwIfAborted();
    started = performance.now();
  }
  pieces.push(Buffer.from(text));
  return pieces;
}
