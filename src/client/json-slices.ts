import { TimeSlices } from '../util/time-slices.ts';
import type { RequestBody } from './call.ts';

/** Values up to this weight are written in one piece, which takes a fraction of a millisecond. */
const maxPartWeight = 8000;

/** This many characters of a string weigh as much as one value. */
const charactersOfValue = 64;

/** The output of `JSON.stringify` in parts. Values up to the weight `maxWeight` are one part. */
export function* jsonParts(value: unknown, maxWeight = maxPartWeight): Generator<string> {
  if (!isContainer(value) || weightLeft(value, maxWeight) >= 0) {
    yield JSON.stringify(value) ?? 'null';
    return;
  }
  let separator = '';
  if (Array.isArray(value)) {
    yield '[';
    for (const item of value) {
      yield separator;
      yield* jsonParts(item, maxWeight);
      separator = ',';
    }
    yield ']';
    return;
  }
  yield '{';
  for (const [key, member] of Object.entries(value)) {
    if (!isSerialized(member)) continue;
    yield `${separator}${JSON.stringify(key)}:`;
    yield* jsonParts(member, maxWeight);
    separator = ',';
  }
  yield '}';
}

/** Whether a value can be written member by member. Objects with `toJSON` cannot. */
const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !('toJSON' in value);

const isSerialized = (value: unknown) =>
  value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';

/** Subtracts the weight of a value from `weight`. Stops early when the result is negative. */
function weightLeft(value: unknown, weight: number): number {
  if (typeof value === 'string') return weight - 1 - value.length / charactersOfValue;
  if (typeof value !== 'object' || value === null) return weight - 1;
  let left = weight - 1;
  // Indices, because iterators were a fifteenth of what a training step allocates.
  if (Array.isArray(value))
    for (let index = 0; index < value.length && left >= 0; index++) left = weightLeft(value[index], left);
  else
    for (const key in value) {
      if (left < 0) break;
      left = weightLeft(Reflect.get(value, key), left);
    }
  return left;
}

/** Characters that are encoded together, which takes less than a millisecond. */
const encodedLength = 65_536;

/**
 * The JSON of a body in pieces, written in time slices: the trajectories of a step can be a hundred megabytes, and other
 * rollouts must continue meanwhile. The pieces are the only copy. @throws the signal's reason.
 */
export async function jsonInSlices(value: object, signal?: AbortSignal): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  const slices = new TimeSlices();
  let text = '';
  for (const part of jsonParts(value)) {
    text += part;
    if (text.length >= encodedLength) {
      pieces.push(Buffer.from(text));
      text = '';
    }
    if (!slices.over) continue;
    await slices.pause();
    signal?.throwIfAborted();
  }
  pieces.push(Buffer.from(text));
  return pieces;
}

/** A text as the bytes of a request body, encoded in time slices. @throws the signal's reason. */
export async function textInSlices(text: string, signal?: AbortSignal): Promise<RequestBody> {
  if (text.length <= encodedLength) return text;
  const pieces: Uint8Array[] = [];
  const slices = new TimeSlices();
  for (let at = 0; at < text.length; ) {
    let end = at + encodedLength;
    // Do not split a surrogate pair.
    if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end++;
    pieces.push(Buffer.from(text.slice(at, end)));
    at = end;
    await slices.pause();
    signal?.throwIfAborted();
  }
  return pieces;
}
