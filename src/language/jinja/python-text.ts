import { type Callable, isNumeric, itemsOf, TemplateError, Tuple, typeName, type Value } from './value.ts';

/*
 * Python's methods of texts. A text's length and positions count characters, not UTF-16 units.
 */

/** What Python's `str.isspace` is true for. */
const space = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const leadingSpace = new RegExp(`^[${space}]+`);
const trailingSpace = new RegExp(`[${space}]+$`);
const lineEnds = '\\n-\\r\\x1c-\\x1e\\x85\\u2028\\u2029';
const lineBreak = new RegExp(`\\r\\n|[${lineEnds}]`);
const words = new RegExp(`[^${space}]+`, 'g');

export function strip(text: string, chars: Value, side: 'left' | 'right' | 'both' = 'both'): string {
  let result = text;
  if (chars === undefined || chars === null) {
    if (side !== 'right') result = result.replace(leadingSpace, '');
    return side === 'left' ? result : stripEndSpace(result);
  }
  const set = new Set(textOf(chars));
  const characters = Array.from(text);
  let [start, end] = [0, characters.length];
  if (side !== 'right') while (start < end && set.has(characters[start] ?? '')) start++;
  if (side !== 'left') while (end > start && set.has(characters[end - 1] ?? '')) end--;
  result = characters.slice(start, end).join('');
  return result;
}

/** Looks from the end, because a pattern would try each run of spaces in the text. */
function stripEndSpace(text: string): string {
  let end = text.length;
  while (end > 0 && trailingSpace.test(text[end - 1] ?? '')) end--;
  return text.slice(0, end);
}

export const capitalize = (text: string) => {
  const [first = '', ...rest] = text;
  return first.toUpperCase() + rest.join('').toLowerCase();
};

const titleMethod = (text: string) => text.replace(/\p{L}+/gu, (word) => capitalize(word));

/** The filter `title`: words begin after white space and opening brackets. */
export const titleFilter = (text: string) =>
  text
    .split(new RegExp(`([-${space}({\\[<]+)`))
    .map(capitalize)
    .join('');

export function splitLines(text: string): string[] {
  const lines = text.split(lineBreak);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

function split(text: string, separator: Value, most: number): string[] {
  if (separator === undefined || separator === null) {
    const found = [...text.matchAll(words)];
    if (most < 0 || found.length <= most) return found.map(([word]) => word);
    return [...found.slice(0, most).map(([word]) => word), text.slice(found[most]?.index)];
  }
  const by = separatorOf(separator);
  const parts = text.split(by);
  return most < 0 || parts.length <= most + 1 ? parts : [...parts.slice(0, most), parts.slice(most).join(by)];
}

function splitFromRight(text: string, separator: Value, most: number): string[] {
  if (separator === undefined || separator === null) {
    const found = [...text.matchAll(words)];
    if (most < 0 || found.length <= most) return found.map(([word]) => word);
    const last = found[found.length - most - 1];
    const rest = text.slice(0, (last?.index ?? 0) + (last?.[0].length ?? 0));
    return [rest, ...found.slice(found.length - most).map(([word]) => word)];
  }
  const by = separatorOf(separator);
  const parts = text.split(by);
  if (most < 0 || parts.length <= most + 1) return parts;
  return [parts.slice(0, parts.length - most).join(by), ...parts.slice(parts.length - most)];
}

export function replace(text: string, old: string, by: string, count: Value): string {
  const most = count === undefined || count === null ? -1 : integerOf(count);
  const parts = old === '' ? ['', ...Array.from(text), ''] : text.split(old);
  if (most < 0 || parts.length <= most + 1) return parts.join(by);
  return [...parts.slice(0, most), parts.slice(most).join(old)].join(by);
}

export function textOf(value: Value): string {
  if (typeof value === 'string') return value;
  throw new TemplateError(`a text is needed here, not ${typeName(value)}`);
}

export function integerOf(value: Value): number {
  if (isNumeric(value) && typeof value !== 'number') return Number(value);
  throw new TemplateError(`an integer is needed here, not ${typeName(value)}`);
}

function separatorOf(value: Value): string {
  const separator = textOf(value);
  if (separator === '') throw new TemplateError('the separator is empty');
  return separator;
}

const affixesOf = (value: Value) => (value instanceof Tuple ? value.map(textOf) : [textOf(value)]);

/** The number of characters before a position in UTF-16 units; -1 stays. */
const position = (text: string, unit: number) =>
  BigInt(unit < 0 ? unit : Array.from(text.slice(0, unit)).length);

function partition(text: string, separator: string, at: number): Tuple | null {
  return at < 0 ? null : Tuple.of(text.slice(0, at), separator, text.slice(at + separator.length));
}

type Method = (text: string, first: Value, second: Value, third: Value) => Value;

const methods: Readonly<Record<string, Method>> = {
  strip: (text, chars) => strip(text, chars),
  lstrip: (text, chars) => strip(text, chars, 'left'),
  rstrip: (text, chars) => strip(text, chars, 'right'),
  upper: (text) => text.toUpperCase(),
  lower: (text) => text.toLowerCase(),
  capitalize,
  title: titleMethod,
  split: (text, separator, most = -1n) => split(text, separator, integerOf(most)),
  rsplit: (text, separator, most = -1n) => splitFromRight(text, separator, integerOf(most)),
  splitlines: (text) => splitLines(text),
  partition: (text, by) =>
    partition(text, separatorOf(by), text.indexOf(textOf(by))) ?? Tuple.of(text, '', ''),
  rpartition: (text, by) =>
    partition(text, separatorOf(by), text.lastIndexOf(textOf(by))) ?? Tuple.of('', '', text),
  startswith: (text, affix) => affixesOf(affix).some((one) => text.startsWith(one)),
  endswith: (text, affix) => affixesOf(affix).some((one) => text.endsWith(one)),
  removeprefix: (text, affix) => (text.startsWith(textOf(affix)) ? text.slice(textOf(affix).length) : text),
  removesuffix: (text, affix) =>
    text.endsWith(textOf(affix)) ? text.slice(0, text.length - textOf(affix).length) : text,
  replace: (text, old, by, count) => replace(text, textOf(old), textOf(by), count),
  find: (text, part) => position(text, text.indexOf(textOf(part))),
  rfind: (text, part) => position(text, text.lastIndexOf(textOf(part))),
  count: (text, part) => BigInt(text.split(separatorOf(part)).length - 1),
  join: (text, items) => itemsOf(items).map(textOf).join(text),
  isdigit: (text) => /^\p{Nd}+$/u.test(text),
  isspace: (text) => text !== '' && strip(text, null) === '',
  isupper: (text) => text === text.toUpperCase() && text !== text.toLowerCase(),
  islower: (text) => text === text.toLowerCase() && text !== text.toUpperCase(),
};

/** The names of the keyword arguments, in the order of the method's parameters. */
const keywordNames: Readonly<Record<string, readonly string[]>> = {
  split: ['sep', 'maxsplit'],
  rsplit: ['sep', 'maxsplit'],
  replace: ['old', 'new', 'count'],
};

/** A method of a text; undefined if there is none of this name. */
export function methodOfText(text: string, name: string): Callable | undefined {
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  if (!method) return undefined;
  return (args, keywords) => {
    const named = keywordNames[name]?.map((key) => keywords.get(key)) ?? [];
    const [first, second, third] = [0, 1, 2].map((index) => args[index] ?? named[index]);
    return method(text, first, second, third);
  };
}

/** Python's `int(text)`; null if the text is none. */
export function parseInteger(text: string): bigint | null {
  const trimmed = strip(text, null).replaceAll('_', '');
  return /^[+-]?\d+$/.test(trimmed) ? BigInt(trimmed.replace(/^\+/, '')) : null;
}

export function parseFloatText(text: string): number | null {
  const trimmed = strip(text, null).replaceAll('_', '');
  if (/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(trimmed)) return Number(trimmed);
  const word = /^([+-]?)(inf|infinity|nan)$/i.exec(trimmed);
  if (!word) return null;
  return word[2]?.toLowerCase() === 'nan' ? Number.NaN : word[1] === '-' ? -Infinity : Infinity;
}
