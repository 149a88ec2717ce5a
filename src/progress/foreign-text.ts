import { stripVTControlCharacters } from 'node:util';
import { displayWidth } from './text.ts';

/** A line that goes on for longer counts as ended: it is written again with each part that comes. */
const longestLine = 4096;

/** Follows what others write to a terminal, for the line that they have begun and not ended. */
export class ForeignText {
  /** As it was written, with its colours. */
  #line = '';

  get line(): string {
    return this.#line;
  }

  /** Rows that the line takes on a terminal of so many columns. */
  rows(columns: number): number {
    if (this.#line === '') return 0;
    return Math.max(1, Math.ceil(displayWidth(stripVTControlCharacters(this.#line)) / columns));
  }

  /** Takes the next text. Gives all that is to be written where the line's beginning has been erased. */
  append(text: string): string {
    const whole = this.#line + text;
    const last = whole.slice(whole.lastIndexOf('\n') + 1);
    // A line that returns to its beginning is written over.
    const shown = last.slice(last.lastIndexOf('\r', last.length - 2) + 1);
    const isLong = shown.length > longestLine;
    this.#line = isLong ? '' : shown;
    return isLong ? `${whole}\n` : whole;
  }
}
