import type { ValidationIssue } from '../contract/index.ts';

/** How many complaints an answer has. */
export const largestIssueCount = 100;
const longestInput = 1000;
const longestName = 200;
const longestMessage = 2000;

/** Fields that are shown of an object that is too long to be shown whole, and the longest name and value of one. */
const mostFields = 16;
const longestPart = 64;

/** Stands where something is not shown. */
const omission = '…';

/** What is shown in place of a text, a list or an object of which nothing is shown. */
export const omitted = { text: omission, list: [omission], object: { [omission]: omission } } as const;

/** A complaint as it is told: what it quotes of a request, which can be megabytes, need not all be carried back. */
export function shownIssue({ loc, msg, input, ...rest }: ValidationIssue): ValidationIssue {
  return {
    loc: loc.map((part) => (typeof part === 'string' ? cut(part, longestName) : part)),
    msg: cut(msg, longestMessage),
    ...rest,
    input: shownInput(input),
  };
}

/** Objects and lists that were too long, and what is shown of them: a hundred complaints may quote the same. */
const shortened = new WeakMap<object, unknown>();

/** A value as a complaint quotes it: of a long text the beginning, of a long object its fields, each shortened. */
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

/** Whether the JSON of a value has at most so many characters. */
function isShort(value: object, limit: number): boolean {
  // The JSON of what has more in it is not made: it may take a tenth of a second.
  return !holdsMoreThan(limit, value) && JSON.stringify(value).length <= limit;
}

/** Whether there are more values and characters in a value. */
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
