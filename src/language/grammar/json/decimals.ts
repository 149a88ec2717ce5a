import { characters, choice, type Expression, literal, optional, repeat, sequence } from '../expression.ts';

const digit = characters([[0x30, 0x39]]);
const digitFrom = (first: number, last: number) => characters([[0x30 + first, 0x30 + last]]);

/** Long enough for every double that is written without loss, and short enough to be finite. */
const wholePart = choice([literal('0'), sequence([digitFrom(1, 9), repeat(digit, 0, 20)])]);
const fraction = sequence([literal('.'), repeat(digit, 1, 20)]);
const exponent = sequence([literal('e'), choice([literal('+'), literal('-')]), repeat(digit, 1, 2)]);

/** Numbers as `JSON.stringify` and people write them: `-1.50`, `2e+21`. All are finite. */
export const anyNumber = sequence([
  optional(literal('-')),
  wholePart,
  optional(fraction),
  optional(exponent),
]);

const plainFraction = sequence([
  choice([literal('0'), sequence([digitFrom(1, 9), repeat(digit, 0, 6)])]),
  literal('.'),
  repeat(digit, 0, 7),
  digitFrom(1, 9),
]);

/** Numbers that are no integers, of at most 15 digits: doubles of more digits may be integers. */
export const anyFraction = sequence([optional(literal('-')), plainFraction]);

/** Numbers of which no two have the same value: at most 15 digits, of which 8 after the point. */
export const anyDistinctNumber = choice([
  literal('0'),
  sequence([
    optional(literal('-')),
    choice([sequence([digitFrom(1, 9), repeat(digit, 0, 14)]), plainFraction]),
  ]),
]);

/** Integers between two bounds, both included, and within the safe integers. Null if there are none. */
export function integerBetween(minimum: number, maximum: number): Expression | null {
  const low = Math.max(minimum, -Number.MAX_SAFE_INTEGER);
  const high = Math.min(maximum, Number.MAX_SAFE_INTEGER);
  if (low > high) return null;
  const signs: Expression[] = [];
  if (low < 0) signs.push(sequence([literal('-'), choice(naturalsBetween(Math.max(1, -high), -low))]));
  if (high >= 0) signs.push(choice(naturalsBetween(Math.max(low, 0), high)));
  return choice(signs);
}

export const anyInteger = integerBetween(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)!;

/** Decimal numerals between two natural numbers, one alternative for each length. `end` follows the numerals of a length. */
function naturalsBetween(low: number, high: number, end?: (length: number) => Expression): Expression[] {
  const alternatives: Expression[] = [];
  for (let length = String(low).length; length <= String(high).length; length++) {
    const least = length === 1 ? 0 : 10 ** (length - 1);
    const first = String(Math.max(low, least));
    const last = length === String(high).length ? String(high) : '9'.repeat(length);
    const numerals = numeralsBetween(first, last);
    alternatives.push(end ? sequence([numerals, end(length)]) : numerals);
  }
  return alternatives;
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

/** A bound of numbers; an open one is not among them. */
export interface Bound {
  value: number;
  isOpen: boolean;
}

const clamped = ({ value, isOpen }: Bound): Bound =>
  Math.abs(value) > Number.MAX_SAFE_INTEGER
    ? { value: Math.sign(value) * Number.MAX_SAFE_INTEGER, isOpen: false }
    : { value, isOpen };

/** Decimal numbers, without exponents, within the safe integers. Null if there are none. */
export function realBetween(from: Bound, to: Bound): Expression | null {
  const [low, high] = [clamped(from), clamped(to)];
  const magnitude = ({ value, isOpen }: Bound): Bound => ({ value: Math.abs(value), isOpen });
  const zero = (isOpen: boolean): Bound => ({ value: 0, isOpen });
  const negative =
    low.value < 0 ? magnitudes(high.value >= 0 ? zero(true) : magnitude(high), magnitude(low)) : [];
  const positive = high.value >= 0 ? magnitudes(low.value < 0 ? zero(false) : low, high) : [];
  const signed = [...negative.map((expression) => sequence([literal('-'), expression])), ...positive];
  return signed.length === 0 ? null : choice(signed);
}

/**
 * Most digits of a number that is compared with a bound. Decimals of so many digits are different doubles, in the same
 * order (IEEE 754, binary64).
 */
export const maxDigits = 15;
const placesAfter = (digits: number): number => Math.max(0, maxDigits - digits);

function magnitudes(low: Bound, high: Bound): Expression[] {
  if (low.value > high.value || (low.value === high.value && (low.isOpen || high.isOpen))) return [];
  const [first, last] = [decimal(low.value), decimal(high.value)];
  const [lowWhole, highWhole] = [Number(first.whole), Number(last.whole)];
  const fromLow = { text: first.fraction, isOpen: low.isOpen };
  const toHigh = { text: last.fraction, isOpen: high.isOpen };
  const withWhole = (whole: string, from: Edge | null, to: Edge | null): Expression[] => {
    const rest = fractions(from, to, placesAfter(whole.length));
    return rest ? [sequence([literal(whole), rest])] : [];
  };
  if (lowWhole === highWhole) return withWhole(first.whole, fromLow, toHigh);
  const anyFraction = (length: number) =>
    placesAfter(length) === 0
      ? literal('')
      : optional(sequence([literal('.'), repeat(digit, 1, placesAfter(length))]));
  return [
    ...withWhole(first.whole, fromLow, null),
    ...(lowWhole + 1 < highWhole ? naturalsBetween(lowWhole + 1, highWhole - 1, anyFraction) : []),
    ...withWhole(last.whole, null, toHigh),
  ];
}

/** A bound's digits after the point, without zeros at the end. */
interface Edge {
  text: string;
  isOpen: boolean;
}

/** What may follow a whole part: nothing, or a point and digits. Null if nothing fits. */
function fractions(from: Edge | null, to: Edge | null, places: number): Expression | null {
  const alternatives: Expression[] = [];
  if (!from || (from.text === '' && !from.isOpen))
    if (!(to?.text === '' && to.isOpen)) alternatives.push(literal(''));
  const digits = digitsBetween(from, to, places, false);
  if (digits) alternatives.push(sequence([literal('.'), digits]));
  return alternatives.length === 0 ? null : choice(alternatives);
}

/** Digits after the point between two edges. `mayEnd`: whether at least one digit comes before. */
function digitsBetween(
  from: Edge | null,
  to: Edge | null,
  places: number,
  mayEnd: boolean,
): Expression | null {
  const alternatives: Expression[] = [];
  const reachesFrom = !from || (from.text === '' && !from.isOpen);
  const reachesTo = !(to?.text === '' && to.isOpen);
  if (mayEnd && reachesFrom && reachesTo) alternatives.push(literal(''));
  if (places > 0) {
    if (!from && !to) return repeat(digit, mayEnd ? 0 : 1, places);
    const low = from ? Number(from.text[0] ?? 0) : 0;
    const high = to ? Number(to.text[0] ?? 0) : 9;
    const after = (edge: Edge | null) => edge && { ...edge, text: edge.text.slice(1) };
    const add = (first: number, last: number, rest: Expression | null) => {
      if (first <= last && rest) alternatives.push(sequence([digitFrom(first, last), rest]));
    };
    if (low === high) add(low, low, digitsBetween(after(from), after(to), places - 1, true));
    else {
      if (from) add(low, low, digitsBetween(after(from), null, places - 1, true));
      add(from ? low + 1 : low, to ? high - 1 : high, repeat(digit, 0, places - 1));
      if (to) add(high, high, digitsBetween(null, after(to), places - 1, true));
    }
  }
  return alternatives.length === 0 ? null : choice(alternatives);
}

/** A number without an exponent, as far as 2^53. */
export function plainNumeral(value: number): string {
  const { whole, fraction } = decimal(Math.abs(value));
  return `${value < 0 ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** A number from 0 to 2^53 as digits before and after the point. */
function decimal(value: number): { whole: string; fraction: string } {
  const [digits = '', power = '0'] = String(value).split('e');
  const [whole = '', fraction = ''] = digits.split('.');
  const shift = -Number(power);
  if (shift <= 0) return { whole, fraction };
  const padded = whole.padStart(shift + 1, '0');
  return { whole: padded.slice(0, -shift), fraction: padded.slice(-shift) + fraction };
}
