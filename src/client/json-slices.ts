import { isLarger, weightOfText } from '../util/json.ts';
import { TimeSlices } from '../util/time-slices.ts';

/** Values up to this weight are written in one piece, which takes a fraction of a millisecond. */
const maxPartWeight = 8000;

/** Of a list of numbers, so many are written together. */
const numbersOfPart = 8000;

/** The output of `JSON.stringify` in parts. Values up to the weight `maxWeight` are one part. */
export function* jsonParts(value: unknown, maxWeight = maxPartWeight): Generator<string> {
  if (!isContainer(value) || !isLarger(value, maxWeight, weightOfText)) {
    yield JSON.stringify(value) ?? 'null';
    return;
  }
  const isList = Array.isArray(value);
  let before = isList ? '[' : '{';
  if (isList && typeof value[0] === 'number')
    for (let at = 0; at < value.length; at += numbersOfPart) {
      yield `${before}${JSON.stringify(value.slice(at, at + numbersOfPart)).slice(1, -1)}`;
      before = ',';
    }
  else
    for (const [key, member] of isList ? value.entries() : Object.entries(value)) {
      if (!isList && !isSerialized(member)) continue;
      yield isList ? before : `${before}${JSON.stringify(key)}:`;
      yield* jsonParts(member, maxWeight);
      before = ',';
    }
  // Without members, nothing has opened it.
  yield `${before === ',' ? '' : before}${isList ? ']' : '}'}`;
}

/** Whether a value can be written member by member. Objects with `toJSON` cannot. */
const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !('toJSON' in value);

const isSerialized = (value: unknown) =>
  value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';

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
