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

function shownInput(value: unknown): unknown {
  if (typeof value === 'string') return cut(value, longestInput);
  if (typeof value !== 'object' || value === null) return value;
  return JSON.stringify(value).length > longestInput ? undefined : value;
}

const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length)}…` : text);
