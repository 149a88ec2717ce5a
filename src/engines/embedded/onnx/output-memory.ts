import { getOrInsert } from '../../../util/get-or-insert.ts';

/** Most bytes that this pool keeps in a thread, lent or idle. */
const mostBytes = 64 * 1024 ** 2;

/** Arrays that are not in use, by their bytes. */
const idle = new Map<number, ArrayBuffer[]>();
const lent = new Set<ArrayBufferLike>();
/** Bytes of all arrays of this thread, in use or idle. */
let bytesInAll = 0;

/**
 * An array for an output that outlives its run, until `giveBack`; null when this thread has too many. V8 counts the memory of
 * new arrays and collects garbage for it: with the megabytes of each micro-batch, a thread would do so all the time.
 */
export function takeArray(length: number): Float32Array | null {
  const bytes = Float32Array.BYTES_PER_ELEMENT * 2 ** Math.ceil(Math.log2(Math.max(1, length)));
  if (bytes > mostBytes) return null;
  const known = idle.get(bytes)?.pop();
  if (!known && bytesInAll + bytes > mostBytes) dropIdle();
  if (!known && bytesInAll + bytes > mostBytes) return null;
  const buffer = known ?? new ArrayBuffer(bytes);
  if (!known) bytesInAll += bytes;
  lent.add(buffer);
  return new Float32Array(buffer, 0, length);
}

/** Returns false for memory that is not of `takeArray`, or that was given back or forgotten. */
export function giveBack(buffer: ArrayBuffer): boolean {
  if (!lent.delete(buffer)) return false;
  getOrInsert(idle, buffer.byteLength, () => []).push(buffer);
  return true;
}

/** Leaves arrays that a failed job did not give back to the garbage collection. */
export function forgetLent(): void {
  for (const { byteLength } of lent) bytesInAll -= byteLength;
  lent.clear();
}

function dropIdle(): void {
  for (const buffers of idle.values())
    for (const buffer of buffers) {
      bytesInAll -= buffer.byteLength;
      buffer.transfer(0);
    }
  idle.clear();
}
