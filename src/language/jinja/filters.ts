import { bind, integerOf, textOf } from './arguments.ts';
import { pass, spend } from './budget.ts';
import { listFilters, listParameters, valueAt } from './list-filters.ts';
import { absolute, parseFloatText, parseInteger, rounded } from './python-number.ts';
import { capitalize, replace, splitLines, strip, titleFilter, truncate } from './python-text.ts';
import { testNamed } from './tests.ts';
import { percentFormat } from './text-format.ts';
import { toJson } from './to-json.ts';
import {
  isNumeric,
  isTrue,
  itemsOf,
  type Keywords,
  TemplateError,
  Tuple,
  toText,
  type Value,
} from './value.ts';

type Filter = (value: Value, args: readonly Value[], keywords: Keywords) => Value;

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

function spaces(count: Value): string {
  const length = Math.max(0, integerOf(count));
  spend(length);
  return ' '.repeat(length);
}

function indented(text: string, width: Value, first: boolean, blank: boolean): string {
  const by = typeof width === 'string' ? width : spaces(width);
  const parts = splitLines(`${text}\n`);
  spend(text.length + parts.length * by.length);
  const lines = parts.map((line, index) => ((index === 0 ? first : line !== '' || blank) ? by + line : line));
  return lines.join('\n');
}

/**
 * The filters of any value, with their arguments in the order of `parameters`. Jinja's `markupsafe` has no part in
 * them: text stays text after `e` and `safe`.
 */
const filters: Readonly<Record<string, (value: Value, ...args: Value[]) => Value>> = {
  ...listFilters,
  abs: (value) => absolute(value),
  capitalize: (value) => capitalize(toText(value)),
  default: (value, otherwise = '', boolean) =>
    value === undefined || (isTrue(boolean) && !isTrue(value)) ? otherwise : value,
  escape: (value) => toText(value).replace(/[&<>'"]/g, (found) => entities[found] ?? found),
  float: (value, otherwise = 0) => {
    if (value === undefined) throw new TemplateError('float: the value is undefined');
    const float = typeof value === 'string' ? parseFloatText(value) : isNumeric(value) ? Number(value) : null;
    return float === null ? otherwise : float;
  },
  indent: (value, width = 4n, first, blank) => indented(toText(value), width, isTrue(first), isTrue(blank)),
  int: (value, otherwise = 0n, base = 10n) => {
    if (value === undefined) throw new TemplateError('int: the value is undefined');
    const whole = typeof value === 'string' ? parseInteger(value, integerOf(base)) : null;
    if (whole !== null) return whole;
    if (typeof value === 'boolean' || typeof value === 'bigint') return BigInt(value);
    const float = typeof value === 'string' ? parseFloatText(value) : value;
    return typeof float === 'number' && Number.isFinite(float) ? BigInt(Math.trunc(float)) : otherwise;
  },
  lower: (value) => toText(value).toLowerCase(),
  replace: (value, old, by, count = null) =>
    replace(toText(value), textOf(old), textOf(by), count === null ? -1 : integerOf(count)),
  round: rounded,
  safe: (value) => value,
  string: (value) => toText(value),
  title: (value) => titleFilter(toText(value)),
  tojson: (value, ascii, indent = null, separators = null, sortKeys) => {
    const [item, key] =
      separators === null ? [indent === null ? ', ' : ',', ': '] : itemsOf(separators).map(textOf);
    return toJson(value, {
      ascii: isTrue(ascii),
      indent: indent === null ? null : typeof indent === 'string' ? indent : spaces(indent),
      separators: [item ?? '', key ?? ''],
      sortKeys: isTrue(sortKeys),
    });
  },
  trim: (value, chars) => strip(toText(value), chars),
  truncate: (value, length = 255n, killWords = false, end = '...', leeway = null) =>
    truncate(toText(value), {
      length: integerOf(length),
      end: textOf(end),
      inWords: isTrue(killWords),
      leeway: leeway === null ? 5 : integerOf(leeway),
    }),
  upper: (value) => toText(value).toUpperCase(),
  wordcount: (value) => BigInt(toText(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0),
};

/** The names of the parameters. A filter that is not here takes no argument. */
const parameters: Readonly<Record<string, readonly string[]>> = {
  ...listParameters,
  default: ['default_value', 'boolean'],
  float: ['default'],
  indent: ['width', 'first', 'blank'],
  int: ['default', 'base'],
  replace: ['old', 'new', 'count'],
  round: ['precision', 'method'],
  tojson: ['ensure_ascii', 'indent', 'separators', 'sort_keys'],
  trim: ['chars'],
  truncate: ['length', 'killwords', 'end', 'leeway'],
};

function chosen(
  values: Value[],
  [name, ...args]: readonly Value[],
  { by, keep }: { by: (value: Value) => Value; keep: boolean },
): Value[] {
  const test = name === undefined ? isTrue : testNamed(textOf(name), args);
  return values.filter((value) => test(by(value)) === keep);
}

/** As Jinja2, which looks into no value that counts as false, such as None. */
const itemsIfAny = (value: Value): Value[] => (isTrue(value) ? itemsOf(value) : []);

const chosenByItem =
  (keep: boolean): Filter =>
  (value, args, keywords) => {
    bind('a test', [], [[], keywords]);
    return chosen(itemsIfAny(value), args, { by: (item) => item, keep });
  };

const chosenByAttribute =
  (keep: boolean): Filter =>
  (value, [path, ...args], keywords) => {
    bind('a test', [], [[], keywords]);
    return chosen(itemsIfAny(value), args, { by: (item) => valueAt(item, path), keep });
  };

/** The filters that take any arguments: for another filter, a test or the fields of a text. */
const appliers: Readonly<Record<string, Filter>> = {
  format: (value, args, keywords) => {
    if (args.length > 0 && keywords.size > 0)
      throw new TemplateError('format takes values by position or by name, not both');
    return percentFormat(toText(value), keywords.size > 0 ? new Map(keywords) : Tuple.from(args));
  },
  map: (value, args, keywords) => {
    if (args.length === 0 && keywords.has('attribute')) {
      const [path, otherwise] = bind('map', ['attribute', 'default'], [args, keywords]);
      return itemsIfAny(value).map((item) => valueAt(item, path, otherwise));
    }
    const [name, ...more] = args;
    const filter = filterNamed(textOf(name));
    return itemsIfAny(value).map((item) => pass(filter(pass(item), more, keywords)));
  },
  reject: chosenByItem(false),
  rejectattr: chosenByAttribute(false),
  select: chosenByItem(true),
  selectattr: chosenByAttribute(true),
};

const otherNames: Readonly<Record<string, string>> = { d: 'default', e: 'escape', count: 'length' };

export function filterNamed(name: string): Filter {
  const known = Object.hasOwn(otherNames, name) ? (otherNames[name] ?? name) : name;
  const applier = Object.hasOwn(appliers, known) ? appliers[known] : undefined;
  if (applier) return applier;
  const filter = Object.hasOwn(filters, known) ? filters[known] : undefined;
  if (!filter) throw new TemplateError(`there is no filter ${JSON.stringify(name)}`);
  const names = parameters[known] ?? [];
  return (value, args, keywords) => filter(value, ...bind(`the filter ${name}`, names, [args, keywords]));
}
