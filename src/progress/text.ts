import util from 'node:util';
import { printable } from '../contract/index.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan' | 'magenta';

/** A piece of text in one style. */
export interface Segment {
  text: string;
  style?: Style;
}

/** One line of a view. Only `paint` turns it into terminal output. */
export type Line = Segment[];

/** Width of a view, and the time of drawing. */
export interface Canvas {
  columns: number;
  nowMs: number;
}

/** Ranges of code points that take two cells: Hangul, CJK, full-width forms, emoji. */
const wide: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0xa4cf],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1faff],
  [0x20000, 0x3fffd],
];

function cellWidth(character: string): number {
  const point = character.codePointAt(0) ?? 0;
  if (point < 0x300) return 1;
  if (/\p{Mark}|\u200d|\ufe0f/u.test(character)) return 0;
  return wide.some(([first, last]) => point >= first && point <= last) ? 2 : 1;
}

/** Cells that a text takes on a terminal. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += cellWidth(character);
  return width;
}

export function lineWidth(line: Line): number {
  return line.reduce((width, segment) => width + displayWidth(segment.text), 0);
}

/** Cuts a text to a width; the last cell becomes an ellipsis. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let taken = '';
  let used = 0;
  for (const character of text) {
    const cells = cellWidth(character);
    if (used + cells > width - 1) break;
    taken += character;
    used += cells;
  }
  return width > 0 ? `${taken}…` : '';
}

/** Cuts a line to a width. */
export function clip(line: Line, width: number): Line {
  const fitted: Line = [];
  let left = width;
  for (const segment of line) {
    const text = truncate(segment.text, left);
    if (text !== '') fitted.push({ ...segment, text });
    left -= displayWidth(text);
    if (text !== segment.text) break;
  }
  return fitted;
}

export function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + space : space + text;
}

/** Breaks a text at spaces; a word longer than the width is cut. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let current = '';
  for (let word of text.split(' ')) {
    const joined = current === '' ? word : `${current} ${word}`;
    if (displayWidth(joined) <= width) {
      current = joined;
      continue;
    }
    if (current !== '') lines.push(current);
    while (displayWidth(word) > width) {
      let head = '';
      for (const character of word) {
        if (head !== '' && displayWidth(head + character) > width) break;
        head += character;
      }
      lines.push(head);
      word = word.slice(head.length);
    }
    current = word;
  }
  return [...lines, current];
}

/** A line as terminal output. Control characters in its texts are made visible; only the styles have an effect. */
export function paint(line: Line, colors: boolean): string {
  return line
    .map(({ text, style }) =>
      colors && style !== undefined
        ? util.styleText(style, printable(text), { validateStream: false })
        : printable(text),
    )
    .join('');
}

/** Whether a stream is a terminal with colors and `NO_COLOR` is not set (https://no-color.org). */
export function showsColors(stream: Pick<NodeJS.WriteStream, 'isTTY' | 'hasColors'>): boolean {
  return stream.isTTY === true && (process.env.NO_COLOR ?? '') === '' && stream.hasColors?.() === true;
}
