import { type CodePointRange, charactersOf, type Expression, LAST_CODE_POINT } from '../expression.ts';

/** How a set of characters is spelled in the text: as it stands, or with the escapes of a JSON string. */
export type Spelling = (ranges: readonly CodePointRange[]) => Expression;

export const plainSpelling: Spelling = (ranges) => charactersOf(ranges);

/** The ranges in order, joined where they touch. */
export function normalized(ranges: readonly CodePointRange[]): CodePointRange[] {
  const joined: [number, number][] = [];
  for (const [first, last] of [...ranges].sort((left, right) => left[0] - right[0])) {
    const previous = joined.at(-1);
    if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last);
    else joined.push([first, last]);
  }
  return joined;
}

export function complement(ranges: readonly CodePointRange[]): CodePointRange[] {
  const outside: CodePointRange[] = [];
  let next = 0;
  for (const [first, last] of normalized(ranges)) {
    if (first > next) outside.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST_CODE_POINT) outside.push([next, LAST_CODE_POINT]);
  return outside;
}

export function intersection(
  left: readonly CodePointRange[],
  right: readonly CodePointRange[],
): CodePointRange[] {
  return complement([...complement(left), ...complement(right)]);
}

const DIGITS: CodePointRange[] = [[0x30, 0x39]];
const WORD: CodePointRange[] = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
/** White space and line ends of ECMAScript. */
const SPACE: CodePointRange[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
export const LINE_ENDS: CodePointRange[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
export const ANY_CHARACTER: CodePointRange[] = [[0, LAST_CODE_POINT]];

/** The classes that a letter after a backslash names. */
export const NAMED_CLASSES: ReadonlyMap<string, CodePointRange[]> = new Map([
  ['d', DIGITS],
  ['D', complement(DIGITS)],
  ['w', WORD],
  ['W', complement(WORD)],
  ['s', SPACE],
  ['S', complement(SPACE)],
]);
