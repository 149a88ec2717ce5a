import {
  capitalize,
  integerOf,
  parseFloatText,
  parseInteger,
  replace,
  splitLines,
  strip,
  textOf,
  titleFilter,
} from './python-text.ts';
import { testNamed } from './tests.ts';
import { toJson } from './to-json.ts';
import {
  compare,
  equal,
  isNumeric,
  isTrue,
  itemsOf,
  type Keywords,
  Namespace,
  TemplateError,
  Tuple,
  toText,
  typeName,
  type Value,
} from './value.ts';

/** The arguments of a filter by name, in the order of its parameters. */
type Filter = (value: Value, args: readonly Value[], keywords: Keywords) => Value;

const argument = (args: readonly Value[], keywords: Keywords, index: number, name: string) =>
  args[index] ?? keywords.get(name);

/** The value at a path such as `function.name` or `0`; undefined if there is none. */
function valueAt(value: Value, path: Value): Value {
  let inner = value;
  for (const part of toText(path).split('.'))
    inner =
      inner instanceof Map
        ? inner.get(part)
        : inner instanceof Namespace
          ? inner.fields.get(part)
          : Array.isArray(inner) && /^\d+$/.test(part)
            ? inner[Number(part)]
            : undefined;
  return inner;
}

/** What values are sorted and grouped by. */
function keyOf(attribute: Value, caseSensitive: Value): (value: Value) => Value {
  return (value) => {
    const key = attribute === undefined || attribute === null ? value : valueAt(value, attribute);
    return typeof key === 'string' && !isTrue(caseSensitive) ? key.toLowerCase() : key;
  };
}

function sorted(values: Value[], key: (value: Value) => Value, reverse: Value): Value[] {
  const sign = isTrue(reverse) ? -1 : 1;
  return values.toSorted((one, other) => sign * compare(key(one), key(other)));
}

function lengthOf(value: Value): bigint {
  if (value instanceof Map) return BigInt(value.size);
  return BigInt(itemsOf(value).length);
}

function chosen(
  values: Value[],
  [name, other]: readonly Value[],
  { by, keep }: { by: (value: Value) => Value; keep: boolean },
): Value[] {
  const test = name === undefined ? isTrue : testNamed(textOf(name));
  return values.filter((value) => test(by(value), other) === keep);
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

function indented(text: string, width: Value, first: boolean, blank: boolean): string {
  const by = typeof width === 'string' ? width : ' '.repeat(width === undefined ? 4 : integerOf(width));
  const lines = splitLines(`${text}\n`).map((line, index) =>
    (index === 0 ? first : line !== '' || blank) ? by + line : line,
  );
  return lines.join('\n');
}

/** The filters that chat templates use. Jinja's `markupsafe` has no part in them: text stays text after `e` and `safe`. */
const filters: Readonly<Record<string, Filter>> = {
  abs: (value) => (typeof value === 'number' ? Math.abs(value) : absolute(value)),
  capitalize: (value) => capitalize(toText(value)),
  default: (value, args, keywords) => {
    const isMissing =
      value === undefined || (isTrue(argument(args, keywords, 1, 'boolean')) && !isTrue(value));
    return isMissing ? (argument(args, keywords, 0, 'default_value') ?? '') : value;
  },
  dictsort: (value, args, keywords) => {
    if (!(value instanceof Map)) throw new TemplateError(`dictsort takes a dict, not ${typeName(value)}`);
    const at = argument(args, keywords, 1, 'by') === 'value' ? '1' : '0';
    const key = keyOf(at, argument(args, keywords, 0, 'case_sensitive'));
    return sorted(
      [...value].map((entry) => Tuple.of(...entry)),
      key,
      argument(args, keywords, 2, 'reverse'),
    );
  },
  escape: (value) => toText(value).replace(/[&<>'"]/g, (found) => entities[found] ?? found),
  first: (value) => itemsOf(value)[0],
  float: (value, args, keywords) => {
    const parsed =
      typeof value === 'string' ? parseFloatText(value) : isNumeric(value) ? Number(value) : null;
    return parsed ?? argument(args, keywords, 0, 'default') ?? 0;
  },
  groupby: (value, args, keywords) => {
    const attribute = argument(args, keywords, 0, 'attribute');
    const key = keyOf(attribute, argument(args, keywords, 2, 'case_sensitive'));
    const groups: { key: Value; shown: Value; list: Value[] }[] = [];
    for (const item of sorted(itemsOf(value), key, false)) {
      const last = groups.at(-1);
      if (last && equal(last.key, key(item))) last.list.push(item);
      else groups.push({ key: key(item), shown: valueAt(item, attribute), list: [item] });
    }
    return groups.map(({ shown, list }) => Tuple.of(shown, list));
  },
  indent: (value, args, keywords) =>
    indented(
      toText(value),
      argument(args, keywords, 0, 'width'),
      isTrue(argument(args, keywords, 1, 'first')),
      isTrue(argument(args, keywords, 2, 'blank')),
    ),
  int: (value, args, keywords) => {
    const otherwise = argument(args, keywords, 0, 'default') ?? 0n;
    const whole = typeof value === 'string' ? parseInteger(value) : null;
    if (whole !== null) return whole;
    if (typeof value === 'boolean' || typeof value === 'bigint') return BigInt(value);
    const float = typeof value === 'string' ? parseFloatText(value) : value;
    return typeof float === 'number' && Number.isFinite(float) ? BigInt(Math.trunc(float)) : otherwise;
  },
  items: (value) => {
    if (value === undefined) return [];
    if (value instanceof Map) return [...value].map((entry) => Tuple.of(...entry));
    throw new TemplateError(`items takes a dict, not ${typeName(value)}`);
  },
  join: (value, args, keywords) => {
    const attribute = argument(args, keywords, 1, 'attribute');
    const values = itemsOf(value).map((item) => (attribute === undefined ? item : valueAt(item, attribute)));
    return values.map(toText).join(toText(argument(args, keywords, 0, 'd')));
  },
  last: (value) => itemsOf(value).at(-1),
  length: lengthOf,
  list: (value) => [...itemsOf(value)],
  lower: (value) => toText(value).toLowerCase(),
  map: (value, args, keywords) => {
    const attribute = keywords.get('attribute');
    if (attribute !== undefined)
      return itemsOf(value).map((item) => valueAt(item, attribute) ?? keywords.get('default'));
    const [name, ...more] = args;
    const filter = filterNamed(textOf(name));
    return itemsOf(value).map((item) => filter(item, more, keywords));
  },
  reject: (value, args) => chosen(itemsOf(value), args, { by: (item) => item, keep: false }),
  rejectattr: (value, [path, ...args]) =>
    chosen(itemsOf(value), args, { by: (item) => valueAt(item, path), keep: false }),
  replace: (value, args, keywords) =>
    replace(toText(value), textOf(args[0]), textOf(args[1]), argument(args, keywords, 2, 'count')),
  reverse: (value) =>
    typeof value === 'string' ? Array.from(value).reverse().join('') : itemsOf(value).toReversed(),
  safe: (value) => value,
  select: (value, args) => chosen(itemsOf(value), args, { by: (item) => item, keep: true }),
  selectattr: (value, [path, ...args]) =>
    chosen(itemsOf(value), args, { by: (item) => valueAt(item, path), keep: true }),
  sort: (value, args, keywords) => {
    const key = keyOf(
      argument(args, keywords, 2, 'attribute'),
      argument(args, keywords, 1, 'case_sensitive'),
    );
    return sorted(itemsOf(value), key, argument(args, keywords, 0, 'reverse'));
  },
  string: toText,
  title: (value) => titleFilter(toText(value)),
  tojson: (value, args, keywords) => {
    const indent = argument(args, keywords, 1, 'indent') ?? null;
    const separators = argument(args, keywords, 2, 'separators') ?? null;
    const [item, key] =
      separators === null ? [indent === null ? ', ' : ',', ': '] : itemsOf(separators).map(textOf);
    return toJson(value, {
      ascii: isTrue(argument(args, keywords, 0, 'ensure_ascii')),
      indent: indent === null ? null : typeof indent === 'string' ? indent : ' '.repeat(integerOf(indent)),
      separators: [item ?? '', key ?? ''],
      sortKeys: isTrue(argument(args, keywords, 3, 'sort_keys')),
    });
  },
  trim: (value, args, keywords) => strip(toText(value), argument(args, keywords, 0, 'chars')),
  unique: (value, args, keywords) => {
    const key = keyOf(
      argument(args, keywords, 1, 'attribute'),
      argument(args, keywords, 0, 'case_sensitive'),
    );
    const seen: Value[] = [];
    return itemsOf(value).filter((item) => {
      const isNew = !seen.some((one) => equal(one, key(item)));
      if (isNew) seen.push(key(item));
      return isNew;
    });
  },
  upper: (value) => toText(value).toUpperCase(),
};

function absolute(value: Value): bigint {
  if (!isNumeric(value) || typeof value === 'number')
    throw new TemplateError(`abs takes a number, not ${typeName(value)}`);
  const whole = BigInt(value);
  return whole < 0n ? -whole : whole;
}

const otherNames: Readonly<Record<string, string>> = { d: 'default', e: 'escape', count: 'length' };

export function filterNamed(name: string): Filter {
  const known = Object.hasOwn(otherNames, name) ? (otherNames[name] ?? name) : name;
  const filter = Object.hasOwn(filters, known) ? filters[known] : undefined;
  if (filter) return filter;
  throw new TemplateError(`there is no filter ${JSON.stringify(name)}`);
}
