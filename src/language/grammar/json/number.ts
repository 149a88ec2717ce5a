import { characters, choice, type Expression, literal, optional, repeat, sequence } from '../expression.ts';
import type { SchemaReader } from './keywords.ts';

const digit = characters([[0x30, 0x39]]);
const digitFrom = (first: number, last: number) => characters([[0x30 + first, 0x30 + last]]);

/** Long enough for every double that is written without loss, and short enough to be finite. */
const wholePart = choice([literal('0'), sequence([digitFrom(1, 9), repeat(digit, 0, 20)])]);
const fraction = sequence([literal('.'), repeat(digit, 1, 20)]);
const fractionAboveZero = sequence([
  literal('.'),
  repeat(literal('0'), 0, 9),
  digitFrom(1, 9),
  repeat(digit, 0, 9),
]);
const exponent = sequence([literal('e'), choice([literal('+'), literal('-')]), repeat(digit, 1, 2)]);

/** Numbers as `JSON.stringify` and people write them: `-1.50`, `2e+21`. All are finite. */
export const anyNumber = sequence([
  optional(literal('-')),
  wholePart,
  optional(fraction),
  optional(exponent),
]);

/** Integers between two bounds, both included, and within the safe integers. Null if there are none. */
function integerBetween(minimum: number, maximum: number): Expression | null {
  const low = Math.max(minimum, -Number.MAX_SAFE_INTEGER);
  const high = Math.min(maximum, Number.MAX_SAFE_INTEGER);
  if (low > high) return null;
  const signs: Expression[] = [];
  if (low < 0) signs.push(sequence([literal('-'), naturalBetween(Math.max(1, -high), -low)]));
  if (high >= 0) signs.push(naturalBetween(Math.max(low, 0), high));
  return choice(signs);
}

export const anyInteger = integerBetween(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)!;

function magnitudes(low: number, aboveLow: boolean, high: number, belowHigh: boolean): Expression[] {
  const alternatives: Expression[] = [];
  const firstWhole = aboveLow ? low + 1 : low;
  if (firstWhole < high)
    alternatives.push(sequence([naturalBetween(firstWhole, high - 1), optional(fraction)]));
  if (aboveLow && low < high) alternatives.push(sequence([literal(String(low)), fractionAboveZero]));
  if (!belowHigh && firstWhole <= high) alternatives.push(literal(String(high)));
  return alternatives;
}

/** Decimal numerals between two natural numbers, one alternative for each length. */
function naturalBetween(low: number, high: number): Expression {
  const alternatives: Expression[] = [];
  for (let length = String(low).length; length <= String(high).length; length++) {
    const least = length === 1 ? 0 : 10 ** (length - 1);
    const first = String(Math.max(low, least));
    const last = length === String(high).length ? String(high) : '9'.repeat(length);
    alternatives.push(numeralsBetween(first, last));
  }
  return choice(alternatives);
}

/** Digit strings of one length between two others. */
function numeralsBetween(first: string, last: string): Expression {
  if (first === '') return literal('');
  const [low, high] = [Number(first[0]), Number(last[0])];
  const [restOfFirst, restOfLast] = [first.slice(1), last.slice(1)];
  const lowest = '0'.repeat(restOfFirst.length);
  const highest = '9'.repeat(restOfFirst.length);
  if (restOfFirst === lowest && restOfLast === highest)
    return sequence([digitFrom(low, high), repeat(digit, lowest.length, lowest.length)]);
  if (low === high) return sequence([digitFrom(low, low), numeralsBetween(restOfFirst, restOfLast)]);
  const alternatives = [sequence([digitFrom(low, low), numeralsBetween(restOfFirst, highest)])];
  if (low + 1 < high)
    alternatives.push(sequence([digitFrom(low + 1, high - 1), numeralsBetween(lowest, highest)]));
  alternatives.push(sequence([digitFrom(high, high), numeralsBetween(lowest, restOfLast)]));
  return choice(alternatives);
}

/** The bounds of a schema; infinite if it has none. */
type Bounds = Record<'minimum' | 'above' | 'maximum' | 'below', number>;

export function numberWithin(reader: SchemaReader, type: 'number' | 'integer'): Expression {
  const bounds: Bounds = {
    minimum: reader.number('minimum') ?? Number.NEGATIVE_INFINITY,
    above: reader.number('exclusiveMinimum') ?? Number.NEGATIVE_INFINITY,
    maximum: reader.number('maximum') ?? Number.POSITIVE_INFINITY,
    below: reader.number('exclusiveMaximum') ?? Number.POSITIVE_INFINITY,
  };
  const { minimum, above, maximum, below } = bounds;
  const expression =
    type === 'integer'
      ? integerBetween(
          Math.max(Math.ceil(minimum), Math.floor(above) + 1),
          Math.min(Math.floor(maximum), Math.ceil(below) - 1),
        )
      : realBetween(reader, bounds);
  return expression ?? reader.refuse(reader.has('minimum') ? 'minimum' : 'maximum', 'allows no number');
}

/** Decimal numbers, without exponents unless all numbers are allowed. */
function realBetween(reader: SchemaReader, { minimum, above, maximum, below }: Bounds): Expression | null {
  let low = Math.max(minimum, above);
  let high = Math.min(maximum, below);
  if (low === Number.NEGATIVE_INFINITY && high === Number.POSITIVE_INFINITY) return anyNumber;
  for (const [bound, keyword, strict] of [
    [low, 'minimum', 'exclusiveMinimum'],
    [high, 'maximum', 'exclusiveMaximum'],
  ] as const)
    if (Number.isFinite(bound) && !Number.isSafeInteger(bound))
      reader.refuse(reader.has(keyword) ? keyword : strict, 'can only be enforced for whole numbers');
  low = Math.max(low, -Number.MAX_SAFE_INTEGER);
  high = Math.min(high, Number.MAX_SAFE_INTEGER);
  const [aboveLow, belowHigh] = [low === above, high === below];
  const negative = low < 0 ? magnitudes(Math.max(0, -high), high >= 0 || belowHigh, -low, aboveLow) : [];
  const positive = high >= 0 ? magnitudes(Math.max(0, low), low >= 0 && aboveLow, high, belowHigh) : [];
  const signed = [...negative.map((expression) => sequence([literal('-'), expression])), ...positive];
  return signed.length === 0 ? null : choice(signed);
}
