import type { ValidationIssue } from '../contract/index.ts';

/** Most issues in one answer. */
export const largestIssueCount = 100;
const longestInput = 1000;
const longestName = 200;
const longestMessage = 2000;

/** Limits for objects too long to be shown whole: number of fields, length of names and values. */
const mostFields = 16;
const longestPart = 64;

const omission = '…';

/** Placeholders for a text, list or object that is not shown. */
export const omitted = { text: omission, list: [omission], object: { [omission]: omission } } as const;

/** Shortens an issue for the answer: the request values that it quotes may be megabytes. */
export function shownIssue({ loc, msg, input, ...rest }: ValidationIssue): ValidationIssue {
  return {
    loc: loc.map((part) => (typeof part === 'string' ? cut(part, longestName) : part)),
    msg: cut(msg, longestMessage),
    ...rest,
    input: shownInput(input),
  };
}

/** Shortened values, cached because a hundred issues may quote the same one. */
const shortened = new WeakMap<object, unknown>();

/** Shortens a quoted value: a long text to its beginning, a long object to its shortened fields. */
function shownInput(value: unknown): unknown {
  if (typeof value === 'string') return cut(value, longestInput);
  if (typeof value !== 'object' || value === null) return value ?? null;
  const known = shortened.get(value);
  if (known !== undefined) return known;
  if (isShort(value, longestInput)) return value;
  const shown = Array.isArray(value) ? omitted.list : shownFields(value);
  shortened.set(value, shown);
  return shown;
}

function shownFields(value: object): object {
  const entries = Object.entries(value);
  const shown = entries
    .slice(0, mostFields)
    .map(([name, inner]): [string, unknown] => [cut(name, longestPart), shownField(inner)]);
  return Object.fromEntries([
    ...shown,
    ...(entries.length > mostFields ? Object.entries(omitted.object) : []),
  ]);
}

function shownField(value: unknown): unknown {
  if (typeof value === 'string') return cut(value, longestPart);
  if (typeof value !== 'object' || value === null || isShort(value, longestPart)) return value;
  return Array.isArray(value) ? omitted.list : omitted.object;
}

/** Whether the JSON of a value has at most `limit` characters. */
function isShort(value: object, limit: number): boolean {
  // Counted first, because the JSON of a large value may take a tenth of a second.
  return !holdsMoreThan(limit, value) && JSON.stringify(value).length <= limit;
}

/** Whether a value has more than `limit` nested values and characters. */
function holdsMoreThan(limit: number, value: object): boolean {
  const waiting: unknown[] = [value];
  let count = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    count += typeof next === 'string' ? next.length : 1;
    if (typeof next === 'object' && next !== null) {
      const inner: unknown[] = Array.isArray(next) ? next : Object.values(next);
      if (inner.length > limit) return true;
      waiting.push(...inner.map((item) => item ?? null));
    }
    if (count > limit) return true;
  }
  return false;
}

const cut = (text: string, length: number) =>
  text.length > length ? `${text.slice(0, length)}${omission}` : text;
