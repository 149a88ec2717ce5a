import util from 'node:util';
import { printable } from '../contract/index.ts';
import { sumOf } from '../util/sums.ts';

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

/** Ranges of code points that take two cells, without emoji: Hangul, CJK, full-width forms. */
const wide: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18dff],
  [0x1aff0, 0x1b2ff],
  [0x1f200, 0x1f265],
  [0x20000, 0x3fffd],
];

/** Made at its first use, as it loads data. */
let segmenter: Intl.Segmenter | undefined;

/** The characters of a text as its reader sees them: an emoji of several code points is one. */
function graphemesOf(text: string): string[] {
  segmenter ??= new Intl.Segmenter();
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

function codePointWidth(character: string): number {
  const point = character.codePointAt(0) ?? 0;
  if (point < 0x300) return 1;
  if (/\p{Mark}|\u200d/u.test(character)) return 0;
  const isWide = wide.some(([first, last]) => point >= first && point <= last);
  return isWide || /\p{Emoji_Presentation}/u.test(character) ? 2 : 1;
}

/** U+FE0F asks for the emoji instead of the text character, as in ❤️. */
function graphemeWidth(grapheme: string): number {
  if (/^\p{Emoji}\ufe0f/u.test(grapheme)) return 2;
  const widths = Array.from(grapheme, codePointWidth);
  return Math.min(2, sumOf(widths));
}

/** Cells that a text takes on a terminal. */
export function displayWidth(text: string): number {
  if (!/[^\0-\u02ff]/.test(text)) return text.length;
  return sumOf(graphemesOf(text), (grapheme) => graphemeWidth(grapheme));
}

export function lineWidth(line: Line): number {
  return sumOf(line, (segment) => displayWidth(segment.text));
}

/** Cuts a text to a width; the last cell becomes an ellipsis. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let taken = '';
  let used = 0;
  for (const grapheme of graphemesOf(text)) {
    const cells = graphemeWidth(grapheme);
    if (used + cells > width - 1) break;
    taken += grapheme;
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
      for (const grapheme of graphemesOf(word)) {
        if (head !== '' && displayWidth(head + grapheme) > width) break;
        head += grapheme;
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
