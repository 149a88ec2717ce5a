import { sumOf } from '../../util/sums.ts';
import { integerOf, textOf } from './arguments.ts';
import { spend } from './budget.ts';
import { isTrue, itemsOf, TemplateError, Tuple, type Value } from './value.ts';

/*
 * Python's methods of texts. A text's length and positions count characters, not UTF-16 units.
 */

/** What Python's `str.isspace` is true for. */
const space = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const leadingSpace = new RegExp(`^[${space}]+`);
const trailingSpace = new RegExp(`[${space}]+$`);
const lineEnds = '\\n-\\r\\x1c-\\x1e\\x85\\u2028\\u2029';
const lineBreak = new RegExp(`\\r\\n|[${lineEnds}]`);
const linesWithEnds = new RegExp(`[^${lineEnds}]*(?:\\r\\n|[${lineEnds}])|[^${lineEnds}]+`, 'g');
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

/** The filter `truncate`. `leeway`: a text that is longer by no more than this stays whole. */
export function truncate(
  text: string,
  { length, end, inWords, leeway }: { length: number; end: string; inWords: boolean; leeway: number },
): string {
  const [characters, most] = [Array.from(text), length - Array.from(end).length];
  if (most < 0) throw new TemplateError(`truncate: the end is longer than the length ${length}`);
  if (leeway < 0) throw new TemplateError(`truncate: the leeway cannot be ${leeway}`);
  if (characters.length <= length + leeway) return text;
  const kept = characters.slice(0, most).join('');
  const space = inWords ? -1 : kept.lastIndexOf(' ');
  return (space < 0 ? kept : kept.slice(0, space)) + end;
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

export function replace(text: string, old: string, by: string, most: number): string {
  const parts = old === '' ? ['', ...Array.from(text), ''] : text.split(old);
  spend(text.length + parts.length * by.length);
  if (most < 0 || parts.length <= most + 1) return parts.join(by);
  return [...parts.slice(0, most), parts.slice(most).join(old)].join(by);
}

function separatorOf(value: Value): string {
  const separator = textOf(value);
  if (separator === '') throw new TemplateError('the separator is empty');
  return separator;
}

const affixesOf = (value: Value) => (value instanceof Tuple ? value.map(textOf) : [textOf(value)]);

/** The characters from `start` to `end` as Python's slice counts them, and where they begin; null if that is too late. */
function window(text: string, start: Value = null, end: Value = null): { at: number; part: string } | null {
  if (start === null && end === null) return { at: 0, part: text };
  const characters = Array.from(text);
  const { length } = characters;
  const clamp = (index: number) => Math.max(index < 0 ? index + length : index, 0);
  const at = start === null ? 0 : clamp(integerOf(start));
  const to = Math.min(end === null ? length : clamp(integerOf(end)), length);
  return at > to ? null : { at, part: characters.slice(at, to).join('') };
}

/** The position of a text in another one, in characters; -1 if it is not there. */
function find(text: string, [part, start, end]: readonly Value[], side: 'first' | 'last'): bigint {
  const searched = window(text, start, end);
  const sought = textOf(part);
  const unit = (side === 'first' ? searched?.part.indexOf(sought) : searched?.part.lastIndexOf(sought)) ?? -1;
  if (!searched || unit < 0) return -1n;
  return BigInt(searched.at + Array.from(searched.part.slice(0, unit)).length);
}

function found(position: bigint): bigint {
  if (position < 0n) throw new TemplateError('the text to find is not there');
  return position;
}

function partition(text: string, separator: string, at: number): Tuple | null {
  return at < 0 ? null : Tuple.of(text.slice(0, at), separator, text.slice(at + separator.length));
}

type Method = (text: string, ...args: Value[]) => Value;

export const methodsOfText: Readonly<Record<string, Method>> = {
  strip: (text, chars) => strip(text, chars),
  lstrip: (text, chars) => strip(text, chars, 'left'),
  rstrip: (text, chars) => strip(text, chars, 'right'),
  upper: (text) => text.toUpperCase(),
  lower: (text) => text.toLowerCase(),
  capitalize: (text) => capitalize(text),
  title: (text) => titleMethod(text),
  split: (text, separator, most = -1n) => split(text, separator, integerOf(most)),
  rsplit: (text, separator, most = -1n) => splitFromRight(text, separator, integerOf(most)),
  splitlines: (text, keepEnds) => (isTrue(keepEnds) ? (text.match(linesWithEnds) ?? []) : splitLines(text)),
  partition: (text, by) =>
    partition(text, separatorOf(by), text.indexOf(textOf(by))) ?? Tuple.of(text, '', ''),
  rpartition: (text, by) =>
    partition(text, separatorOf(by), text.lastIndexOf(textOf(by))) ?? Tuple.of('', '', text),
  startswith: (text, affix, start, end) =>
    affixesOf(affix).some((one) => window(text, start, end)?.part.startsWith(one)),
  endswith: (text, affix, start, end) =>
    affixesOf(affix).some((one) => window(text, start, end)?.part.endsWith(one)),
  removeprefix: (text, affix) => (text.startsWith(textOf(affix)) ? text.slice(textOf(affix).length) : text),
  removesuffix: (text, affix) =>
    text.endsWith(textOf(affix)) ? text.slice(0, text.length - textOf(affix).length) : text,
  replace: (text, old, by, count = -1n) => replace(text, textOf(old), textOf(by), integerOf(count)),
  find: (text, ...args) => find(text, args, 'first'),
  rfind: (text, ...args) => find(text, args, 'last'),
  index: (text, ...args) => found(find(text, args, 'first')),
  rindex: (text, ...args) => found(find(text, args, 'last')),
  count: (text, part, start, end) => {
    const searched = window(text, start, end)?.part;
    const sought = textOf(part);
    if (searched === undefined) return 0n;
    return BigInt(sought === '' ? Array.from(searched).length + 1 : searched.split(sought).length - 1);
  },
  join: (text, items) => {
    const texts = itemsOf(items).map(textOf);
    spend(sumOf(texts, (one) => one.length + text.length));
    return texts.join(text);
  },
  isdigit: (text) => /^\p{Nd}+$/u.test(text),
  isspace: (text) => text !== '' && strip(text, null) === '',
  isupper: (text) => text === text.toUpperCase() && text !== text.toLowerCase(),
  islower: (text) => text === text.toLowerCase() && text !== text.toUpperCase(),
};
