import {
  characters,
  choice,
  choiceOf,
  type Expression,
  literal,
  optional,
  repeat,
  sequence,
} from '../expression.ts';
import type { SchemaReader } from './keywords.ts';

const digit = characters([0x30, 0x39]);
const digitFrom = (first: number, last: number) => characters([0x30 + first, 0x30 + last]);

/** Long enough for every double that is written without loss, and short enough to be finite. */
const wholePart = choice(literal('0'), sequence(digitFrom(1, 9), repeat(digit, 0, 20)));
const fraction = sequence(literal('.'), repeat(digit, 1, 20));
const fractionAboveZero = sequence(
  literal('.'),
  repeat(literal('0'), 0, 9),
  digitFrom(1, 9),
  repeat(digit, 0, 9),
);
const exponent = sequence(literal('e'), choice(literal('+'), literal('-')), repeat(digit, 1, 2));

/** Numbers as `JSON.stringify` and people write them: `-1.50`, `2e+21`. All are finite. */
export const anyNumber: Expression = sequence(
  optional(literal('-')),
  wholePart,
  optional(fraction),
  optional(exponent),
);

/** Integers between two bounds, both included. Null means the outermost safe integer. */
function integerBetween(minimum: number | null, maximum: number | null): Expression | null {
  const low = Math.max(minimum ?? -Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER);
  const high = Math.min(maximum ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  const signs: Expression[] = [];
  if (low < 0 && low <= high)
    signs.push(sequence(literal('-'), naturalBetween(Math.max(1, -Math.min(high, -1)), -low)));
  if (high >= 0 && low <= high) signs.push(naturalBetween(Math.max(low, 0), high));
  return signs.length === 0 ? null : choiceOf(signs);
}

export const anyInteger: Expression = integerBetween(null, null)!;

interface NumberBounds {
  minimum: number;
  maximum: number;
  /** Whether the minimum itself is excluded. */
  aboveMinimum: boolean;
  /** Whether the maximum itself is excluded. */
  belowMaximum: boolean;
}

/** Decimal numbers, without exponents, between two integers. */
function numberBetween({ minimum, maximum, aboveMinimum, belowMaximum }: NumberBounds): Expression | null {
  const negative =
    minimum < 0
      ? magnitudes(Math.max(0, -maximum), maximum >= 0 || belowMaximum, -minimum, aboveMinimum)
      : [];
  const positive =
    maximum >= 0 ? magnitudes(Math.max(0, minimum), minimum >= 0 && aboveMinimum, maximum, belowMaximum) : [];
  const signed = [...negative.map((expression) => sequence(literal('-'), expression)), ...positive];
  return signed.length === 0 ? null : choiceOf(signed);
}

function magnitudes(low: number, aboveLow: boolean, high: number, belowHigh: boolean): Expression[] {
  const alternatives: Expression[] = [];
  const firstWhole = aboveLow ? low + 1 : low;
  if (firstWhole < high)
    alternatives.push(sequence(naturalBetween(firstWhole, high - 1), optional(fraction)));
  if (aboveLow && low < high) alternatives.push(sequence(literal(String(low)), fractionAboveZero));
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
  return choiceOf(alternatives);
}

/** Digit strings of one length between two others. */
function numeralsBetween(first: string, last: string): Expression {
  if (first === '') return literal('');
  const [low, high] = [Number(first[0]), Number(last[0])];
  const [restOfFirst, restOfLast] = [first.slice(1), last.slice(1)];
  const lowest = '0'.repeat(restOfFirst.length);
  const highest = '9'.repeat(restOfFirst.length);
  if (restOfFirst === lowest && restOfLast === highest)
    return sequence(digitFrom(low, high), repeat(digit, lowest.length, lowest.length));
  if (low === high) return sequence(digitFrom(low, low), numeralsBetween(restOfFirst, restOfLast));
  const alternatives = [sequence(digitFrom(low, low), numeralsBetween(restOfFirst, highest))];
  if (low + 1 < high)
    alternatives.push(sequence(digitFrom(low + 1, high - 1), numeralsBetween(lowest, highest)));
  alternatives.push(sequence(digitFrom(high, high), numeralsBetween(lowest, restOfLast)));
  return choiceOf(alternatives);
}

export function numberWithin(reader: SchemaReader, type: 'number' | 'integer'): Expression {
  const bounds = ['minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum'].map((name) =>
    reader.number(name),
  );
  const [minimum = null, above = null, maximum = null, below = null] = bounds;
  const expression =
    type === 'integer'
      ? integerBetween(
          largest(
            minimum === null ? null : Math.ceil(minimum),
            above === null ? null : Math.floor(above) + 1,
          ),
          smallest(
            maximum === null ? null : Math.floor(maximum),
            below === null ? null : Math.ceil(below) - 1,
          ),
        )
      : realBetween(reader, { minimum, above, maximum, below });
  return expression ?? reader.refuse(minimum === null ? 'maximum' : 'minimum', 'leaves no number');
}

type RealBounds = Record<'minimum' | 'above' | 'maximum' | 'below', number | null>;

function realBetween(
  reader: SchemaReader,
  { minimum, above, maximum, below }: RealBounds,
): Expression | null {
  const low = largest(minimum, above);
  const high = smallest(maximum, below);
  if (low === null && high === null) return anyNumber;
  for (const [bound, keyword, strict] of [
    [low, 'minimum', 'exclusiveMinimum'],
    [high, 'maximum', 'exclusiveMaximum'],
  ] as const)
    if (bound !== null && !Number.isSafeInteger(bound))
      reader.refuse(reader.has(keyword) ? keyword : strict, 'is enforced for whole numbers only');
  return numberBetween({
    minimum: low ?? -Number.MAX_SAFE_INTEGER,
    maximum: high ?? Number.MAX_SAFE_INTEGER,
    aboveMinimum: low !== null && low === above,
    belowMaximum: high !== null && high === below,
  });
}

/** The greater of two bounds, either of which may be absent. */
const largest = (left: number | null, right: number | null): number | null =>
  left === null || right === null ? (left ?? right) : Math.max(left, right);

const smallest = (left: number | null, right: number | null): number | null =>
  left === null || right === null ? (left ?? right) : Math.min(left, right);
