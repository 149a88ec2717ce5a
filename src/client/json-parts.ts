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
