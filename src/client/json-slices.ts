import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RequestBody } from './call.ts';

/** What weighs no more is written in one piece: a fraction of a millisecond. */
const heaviestPart = 2000;

/** Characters of a string that weigh as much as a value of its own. */
const charactersOfValue = 64;

/** What `JSON.stringify` writes of a value, part by part: one of `heaviest` values and texts, or less, is one part. */
export function* jsonParts(value: unknown, heaviest = heaviestPart): Generator<string> {
  if (!isContainer(value) || weightLeft(value, heaviest) >= 0) {
    yield JSON.stringify(value) ?? 'null';
    return;
  }
  let separator = '';
  if (Array.isArray(value)) {
    yield '[';
    for (const item of value) {
      yield separator;
      yield* jsonParts(item, heaviest);
      separator = ',';
    }
    yield ']';
    return;
  }
  yield '{';
  for (const [key, member] of Object.entries(value)) {
    if (!isWritten(member)) continue;
    yield `${separator}${JSON.stringify(key)}:`;
    yield* jsonParts(member, heaviest);
    separator = ',';
  }
  yield '}';
}

/** Whether it may be written member by member. One that has a form of its own may not. */
const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !('toJSON' in value);

const isWritten = (value: unknown) =>
  value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';

/** What is left of a weight when that of a value has been taken off it; looks no further once nothing is left. */
function weightLeft(value: unknown, weight: number): number {
  if (typeof value === 'string') return weight - 1 - value.length / charactersOfValue;
  if (typeof value !== 'object' || value === null) return weight - 1;
  let left = weight - 1;
  if (Array.isArray(value))
    for (const item of value) {
      if (left < 0) break;
      left = weightLeft(item, left);
    }
  else
    for (const key in value) {
      if (left < 0) break;
      left = weightLeft(Reflect.get(value, key), left);
    }
  return left;
}

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
