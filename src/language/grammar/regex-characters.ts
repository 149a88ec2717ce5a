import { ANY_CHARACTER, type CodePointRange, complement } from './expression.ts';
import { CONTROL_ESCAPES, type SourceReader } from './source-reader.ts';

const DIGITS: CodePointRange[] = [[0x30, 0x39]];
/** The characters of words. */
export const WORD: CodePointRange[] = [...DIGITS, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
/** White space and line ends of ECMAScript. */
export const SPACE: CodePointRange[] = [
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
/** The characters that `.` leaves out. */
export const LINE_ENDS: CodePointRange[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
/** Classes that are named by a letter after a backslash. */
const NAMED_CLASSES: ReadonlyMap<string, CodePointRange[]> = new Map([
  ['d', DIGITS],
  ['D', complement(DIGITS)],
  ['w', WORD],
  ['W', complement(WORD)],
  ['s', SPACE],
  ['S', complement(SPACE)],
]);

/** The characters that the escape after a backslash stands for. Refuses escapes of other kinds by name. */
export function escapedCharacters(reader: SourceReader, inClass: boolean): readonly CodePointRange[] {
  const letter = reader.next();
  const named = NAMED_CLASSES.get(letter);
  if (named) return named;
  const control = CONTROL_ESCAPES.get(letter);
  if (control !== undefined) return [[control, control]];
  if (letter === 'b' && inClass) return [[0x08, 0x08]];
  if (letter === 'x') return hexadecimal(reader, /^[0-9A-Fa-f]{2}/);
  if (letter === 'u') return hexadecimal(reader, /^(?:\{[0-9A-Fa-f]{1,6}\}|[0-9A-Fa-f]{4})/);
  if (/[A-Za-z1-9]/.test(letter)) reader.refuse(`\\${letter}`);
  return [single(letter)];
}

function hexadecimal(reader: SourceReader, form: RegExp): CodePointRange[] {
  const digits = form.exec(reader.ahead(8))?.[0];
  if (!digits) return reader.refuse('an escape without its hexadecimal digits');
  reader.index += digits.length;
  const value = Number.parseInt(digits.replace(/[{}]/g, ''), 16);
  if (value > ANY_CHARACTER[0]![1]) reader.refuse(`the code point ${digits}`);
  return [[value, value]];
}

/** The range of one character. */
export function single(character: string): CodePointRange {
  const code = character.codePointAt(0)!;
  return [code, code];
}
