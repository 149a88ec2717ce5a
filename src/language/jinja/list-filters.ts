import { sumOf } from '../../util/sums.ts';
import { spend, step } from './budget.ts';
import { binary } from './operators.ts';
import {
  compare,
  equal,
  Group,
  isTrue,
  itemsOf,
  Namespace,
  TemplateError,
  Tuple,
  toText,
  typeName,
  type Value,
} from './value.ts';

/** The value at a path such as `function.name` or `0`; `otherwise` where a part is missing, unless that is None. */
export function valueAt(value: Value, path: Value, otherwise?: Value): Value {
  let inner = value;
  for (const part of toText(path).split('.')) {
    if (inner === undefined) throw new TemplateError(`a value is undefined, so it has no ${part}`);
    const item = itemAt(inner, part);
    inner = item === undefined && otherwise !== null ? otherwise : item;
  }
  return inner;
}

/** A part of digits is a position, never the key of a dict. */
function itemAt(value: Value, part: string): Value {
  if (/^\d+$/.test(part))
    return typeof value === 'string' || Array.isArray(value) ? itemsOf(value)[Number(part)] : undefined;
  if (value instanceof Map) return value.get(part);
  return value instanceof Namespace ? value.fields.get(part) : undefined;
}

const isGiven = (value: Value) => value !== undefined && value !== null;

/** What values are sorted and grouped by. */
function keyOf(attribute: Value, caseSensitive: Value, otherwise?: Value): (value: Value) => Value {
  return (value) => {
    const key = isGiven(attribute) ? valueAt(value, attribute, otherwise) : value;
    return typeof key === 'string' && !isTrue(caseSensitive) ? key.toLowerCase() : key;
  };
}

function sorted(values: Value[], key: (value: Value) => Value, reverse: Value): Value[] {
  const sign = isTrue(reverse) ? -1 : 1;
  return values.toSorted((one, other) => sign * compare(key(one), key(other)));
}

/** The first of the values that no other one is beyond: below for `sign` 1, above for -1. */
function extreme(sign: 1 | -1, value: Value, caseSensitive: Value, attribute: Value): Value {
  const key = keyOf(attribute, caseSensitive);
  const [first, ...rest] = itemsOf(value);
  return rest.reduce((best, item) => (sign * compare(key(item), key(best)) < 0 ? item : best), first);
}

const entriesOf = (value: Map<string, Value>) => [...value].map((entry) => Tuple.of(...entry));

/** The filters of lists and dicts, with their arguments in the order of `listParameters`. */
export const listFilters: Readonly<Record<string, (value: Value, ...args: Value[]) => Value>> = {
  dictsort: (value, caseSensitive, by = 'key', reverse) => {
    if (!(value instanceof Map)) throw new TemplateError(`dictsort takes a dict, not ${typeName(value)}`);
    if (by !== 'key' && by !== 'value')
      throw new TemplateError(`dictsort sorts by key or value, not by ${toText(by)}`);
    return sorted(entriesOf(value), keyOf(by === 'key' ? '0' : '1', caseSensitive), reverse);
  },
  first: (value) => itemsOf(value)[0],
  groupby: (value, attribute, otherwise, caseSensitive) => {
    const key = keyOf(attribute, caseSensitive, otherwise);
    const groups: { key: Value; shown: Value; list: Value[] }[] = [];
    for (const item of sorted(itemsOf(value), key, false)) {
      const last = groups.at(-1);
      if (last && equal(last.key, key(item))) last.list.push(item);
      else groups.push({ key: key(item), shown: valueAt(item, attribute, otherwise), list: [item] });
    }
    return groups.map(({ shown, list }) => Group.of(shown, list));
  },
  items: (value) => {
    if (value === undefined) return [];
    if (value instanceof Map) return entriesOf(value);
    throw new TemplateError(`items takes a dict, not ${typeName(value)}`);
  },
  join: (value, separator = '', attribute) => {
    const values = itemsOf(value);
    const shown = isGiven(attribute) ? values.map((item) => valueAt(item, attribute)) : values;
    const [texts, between] = [shown.map(toText), toText(separator)];
    spend(sumOf(texts, (text) => text.length + between.length));
    return texts.join(between);
  },
  last: (value) => itemsOf(value).at(-1),
  length: (value) => BigInt(itemsOf(value).length),
  list: (value) => [...itemsOf(value)],
  max: (value, caseSensitive, attribute) => extreme(-1, value, caseSensitive, attribute),
  min: (value, caseSensitive, attribute) => extreme(1, value, caseSensitive, attribute),
  reverse: (value) =>
    typeof value === 'string' ? Array.from(value).reverse().join('') : itemsOf(value).toReversed(),
  sort: (value, reverse, caseSensitive, attribute) =>
    sorted(itemsOf(value), keyOf(attribute, caseSensitive), reverse),
  sum: (value, attribute, start = 0n) => {
    if (typeof start === 'string') throw new TemplateError('sum does not add texts: use join');
    const values = itemsOf(value);
    const added = isGiven(attribute) ? values.map((item) => valueAt(item, attribute)) : values;
    return added.reduce((total, item) => {
      step();
      return binary('+', total, item);
    }, start);
  },
  unique: (value, caseSensitive, attribute) => {
    const key = keyOf(attribute, caseSensitive);
    const seen: Value[] = [];
    return itemsOf(value).filter((item) => {
      step(seen.length / 8);
      const isNew = !seen.some((one) => equal(one, key(item)));
      if (isNew) seen.push(key(item));
      return isNew;
    });
  },
};

/** The names of the parameters. A filter that is not here takes no argument. */
export const listParameters: Readonly<Record<string, readonly string[]>> = {
  dictsort: ['case_sensitive', 'by', 'reverse'],
  groupby: ['attribute', 'default', 'case_sensitive'],
  join: ['d', 'attribute'],
  max: ['case_sensitive', 'attribute'],
  min: ['case_sensitive', 'attribute'],
  sort: ['reverse', 'case_sensitive', 'attribute'],
  sum: ['attribute', 'start'],
  unique: ['case_sensitive', 'attribute'],
};
