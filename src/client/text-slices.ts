import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RequestBody } from './call.ts';

/** Characters that are turned into bytes together: less than a millisecond. */
const sliceLength = 262_144;

/** A text as the bytes that are sent, made piece by piece with the event loop let go between them. */
export async function textInSlices(text: string, signal?: AbortSignal): Promise<RequestBody> {
  if (text.length <= sliceLength) return text;
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < text.length; ) {
    let end = at + sliceLength;
    // The two halves of one character stay together.
    if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end++;
    pieces.push(Buffer.from(text.slice(at, end)));
    at = end;
    await nextTurn();
    signal?.throwIfAborted();
  }
  return pieces;
}
