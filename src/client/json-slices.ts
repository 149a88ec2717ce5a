import { isLarger, weightOfText } from '../util/json.ts';
import { TimeSlices } from '../util/time-slices.ts';
import type { RequestBody } from './call.ts';

/** Values up to this weight are written in one piece, which takes a fraction of a millisecond. */
const maxPartWeight = 8000;

/** The output of `JSON.stringify` in parts. Values up to the weight `maxWeight` are one part. */
export function* jsonParts(value: unknown, maxWeight = maxPartWeight): Generator<string> {
  if (!isContainer(value) || !isLarger(value, maxWeight, weightOfText)) {
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

/**
 * The JSON of a body in pieces, written in time slices: the trajectories of a step can be a hundred megabytes, and other
 * rollouts must continue meanwhile. The pieces are the only copy. @throws the signal's reason.
 */
export const jsonInSlices = (value: object, signal?: AbortSignal): Promise<Uint8Array[]> =>
  encodeInSlices(jsonParts(value), signal);

/** A text as the bytes of a request body, encoded in time slices. @throws the signal's reason. */
export const textInSlices = async (text: string, signal?: AbortSignal): Promise<RequestBody> =>
  text.length <= encodedLength ? text : encodeInSlices(textParts(text), signal);

/** Characters that are encoded together, which takes less than a millisecond. */
const encodedLength = 65_536;

/** A text in parts that split no character. */
function* textParts(text: string): Generator<string> {
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = at + encodedLength;
    if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end++;
    yield text.slice(at, end);
  }
}

async function encodeInSlices(parts: Iterable<string>, signal?: AbortSignal): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  const slices = new TimeSlices();
  let text = '';
  for (const part of parts) {
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
