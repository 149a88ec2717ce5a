import { bind, integerOf, textOf } from './arguments.ts';
import { spend } from './budget.ts';
import { strftime } from './strftime.ts';
import { itemsOf, type Keywords, keyOf, Namespace, TemplateError, toText, type Value } from './value.ts';

/** As in Jinja2's sandbox. */
const maxRange = 100_000;

/** The names that every template knows. */
export const globals: ReadonlyMap<string, Value> = new Map<string, Value>([
  ...[true, false, null].flatMap((value): [string, Value][] => {
    const name = toText(value);
    return [
      [name, value],
      [name.toLowerCase(), value],
    ];
  }),
  [
    'raise_exception',
    (...given) => {
      const [message] = bind('raise_exception', ['message'], given);
      throw new TemplateError(toText(message));
    },
  ],
  [
    'range',
    (...given) => {
      const [one = 0, other, step = 1] = bind('range', ['', '', ''], given).map(integerOf);
      const [start, stop] = other === undefined ? [0, one] : [one, other];
      if (step === 0) throw new TemplateError('the step of a range cannot be zero');
      const length = Math.max(0, Math.ceil((stop - start) / step));
      if (length > maxRange)
        throw new TemplateError(`a range of ${length} numbers is too long; the maximum is ${maxRange}`);
      spend(length);
      return Array.from({ length }, (_, index) => BigInt(start + index * step));
    },
  ],
  ['namespace', (args, keywords) => new Namespace(dictOf('namespace', args, keywords))],
  ['dict', (args, keywords) => dictOf('dict', args, keywords)],
  [
    'strftime_now',
    (...given) => {
      const [format] = bind('strftime_now', ['format'], given);
      return strftime(new Date(), textOf(format));
    },
  ],
]);

function dictOf(what: string, args: readonly Value[], keywords: Keywords): Map<string, Value> {
  const [given] = bind(what, [''], [args, new Map()]);
  return new Map([...entriesOf(given), ...keywords]);
}

function entriesOf(value: Value): [string, Value][] {
  if (value instanceof Map) return [...value];
  return itemsOf(value).map((pair) => {
    const [key, item] = itemsOf(pair);
    return [keyOf(key), item];
  });
}
