import { largestOf } from '../../../util/extremes.ts';
import { choice, type Expression, literal } from '../expression.ts';
import type { Conjunction } from './conjunction.ts';
import { anyNumber, type Bound, integerBetween, maxDigits, realBetween } from './decimals.ts';
import { RANGE_OF_FORMAT } from './formats.ts';
import { isOfType } from './types.ts';

/** Numbers within the bounds of all schemas. `integer`: whole numbers only. Null if there are none. */
export function numberWithin(all: Conjunction, type: 'number' | 'integer'): Expression | null {
  const ranges = all.strings('format').flatMap((format) => {
    const range = RANGE_OF_FORMAT.get(format);
    return range ? [range] : [];
  });
  const isWhole = type === 'integer' || ranges.length > 0 || all.numbers('multipleOf').includes(1);
  const steps = all.numbers('multipleOf').filter((step) => step !== 1);
  const low = strictest(all, 'minimum', 'exclusiveMinimum', -1);
  const high = strictest(all, 'maximum', 'exclusiveMaximum', 1);
  if (low.value > Number.MAX_SAFE_INTEGER || high.value < -Number.MAX_SAFE_INTEGER)
    all.refuse(
      low.value > 0
        ? all.has('minimum')
          ? 'minimum'
          : 'exclusiveMinimum'
        : all.has('maximum')
          ? 'maximum'
          : 'exclusiveMaximum',
      'is beyond 2^53, where doubles lose digits: take a smaller bound, or a string',
    );
  if (steps.length > 0) {
    const multiples = multiplesBetween(low, high, steps);
    if (!multiples)
      all.refuse(
        'multipleOf',
        `cannot be enforced, except 1, or with a minimum and a maximum that leave at most ${maxMultiples} numbers`,
      );
    const fitting = multiples.filter(
      (value) =>
        (!isWhole || Number.isSafeInteger(value)) &&
        ranges.every(([least, most]) => least <= value && value <= most),
    );
    return fitting.length === 0 ? null : choice(fitting.map((value) => literal(JSON.stringify(value))));
  }
  if (isWhole)
    return integerBetween(
      Math.max(
        low.isOpen ? Math.floor(low.value) + 1 : Math.ceil(low.value),
        ...ranges.map(([least]) => least),
      ),
      Math.min(
        high.isOpen ? Math.ceil(high.value) - 1 : Math.floor(high.value),
        ...ranges.map(([, most]) => most),
      ),
    );
  if (low.value === Number.NEGATIVE_INFINITY && high.value === Number.POSITIVE_INFINITY) return anyNumber;
  return realBetween(low, high);
}

/** Most numbers that are written one by one. */
const maxMultiples = 2000;

/** The multiples of all steps, by the division of doubles, as validators check them. Null if there are too many. */
function multiplesBetween(low: Bound, high: Bound, steps: readonly number[]): number[] | null {
  const step = largestOf(steps);
  const [first, last] = [Math.ceil(low.value / step), Math.floor(high.value / step)];
  if (!(step > 0 && last - first < maxMultiples)) return null;
  // A product may end in digits that no one writes: 3 * 0.1 is 0.30000000000000004.
  const multiples = Array.from({ length: last - first + 1 }, (_, at) =>
    Number(((first + at) * step).toPrecision(maxDigits)),
  );
  return multiples.filter(
    (value) =>
      steps.every((one) => Number.isInteger(value / one)) &&
      (low.isOpen ? value > low.value : value >= low.value) &&
      (high.isOpen ? value < high.value : value <= high.value),
  );
}

/** The narrowest bound on one side. In draft 4, `exclusiveMinimum: true` makes the minimum beside it exclusive. */
function strictest(all: Conjunction, closed: string, open: string, sign: 1 | -1): Bound {
  let found: Bound = { value: sign * Number.POSITIVE_INFINITY, isOpen: false };
  const narrow = (value: unknown, isOpen: boolean, keyword: string) => {
    if (typeof value !== 'number' || !Number.isFinite(value))
      return all.refuse(keyword, 'must be a number that a double can hold');
    const isNarrower = sign * value < sign * found.value;
    if (isNarrower || (value === found.value && isOpen)) found = { value, isOpen };
  };
  for (const { schema } of all.parts) {
    const exclusive = schema[open];
    if (schema[closed] !== undefined) narrow(schema[closed], exclusive === true, closed);
    if (exclusive !== undefined && !isOfType(exclusive, 'boolean')) narrow(exclusive, true, open);
  }
  return found;
}
