import type { ValidationIssue } from '../contract/index.ts';

/** How many complaints an answer has. */
export const largestIssueCount = 100;
const longestInput = 1000;
const longestName = 200;
const longestMessage = 2000;

/** A complaint as it is told: what it quotes of a request, which can be megabytes, need not all be carried back. */
export function shownIssue({ loc, msg, input, ...rest }: ValidationIssue): ValidationIssue {
  const shown = shownInput(input);
  return {
    loc: loc.map((part) => (typeof part === 'string' ? cut(part, longestName) : part)),
    msg: cut(msg, longestMessage),
    ...rest,
    ...(shown === undefined ? {} : { input: shown }),
  };
}

/** Values that were found to be too long: a hundred complaints may quote the same. */
const tooLong = new WeakSet<object>();

/** What a complaint quotes of a value; undefined where that would be too long. */
export function shownInput(value: unknown): unknown {
  if (typeof value === 'string') return cut(value, longestInput);
  if (typeof value !== 'object' || value === null) return value;
  if (tooLong.has(value)) return undefined;
  // Of what has more in it the JSON is not made: it may take a tenth of a second.
  if (!holdsMoreThan(longestInput, value) && JSON.stringify(value).length <= longestInput) return value;
  tooLong.add(value);
  return undefined;
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

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length)}…` : text);
