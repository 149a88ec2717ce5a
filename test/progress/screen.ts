import { EventEmitter } from 'node:events';
import type { Terminal } from '../../src/progress/view.ts';

/** A small terminal that interprets the output of the live view. */
export class Screen extends EventEmitter implements Terminal {
  readonly isTTY: boolean;
  writable = true;
  columns: number;
  rows: number;
  /** All writes, frame by frame. */
  readonly writes: string[] = [];
  cursorVisible = true;
  #cells: string[] = [''];
  #row = 0;
  #column = 0;

  constructor(columns: number, rows: number, { isTTY = true }: { isTTY?: boolean } = {}) {
    super();
    this.isTTY = isTTY;
    this.columns = columns;
    this.rows = rows;
  }

  readonly hasColors = () => false;

  readonly write = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
    for (const done of rest) if (typeof done === 'function') done();
    const text = typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk);
    this.writes.push(text);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what a terminal reads
    for (const [part] of text.matchAll(/\u001b\[\??\d*[A-Za-z]|\n|\r|[^\u001b\n\r]+/g)) this.#take(part);
    return true;
  };

  /** The rows as a person sees them. */
  get lines(): string[] {
    return this.#cells.map((line) => line.trimEnd());
  }

  resize(columns: number): void {
    this.columns = columns;
    this.emit('resize');
  }

  #take(part: string): void {
    const csi = '\u001b[';
    const line = this.#cells[this.#row] ?? '';
    if (part === '\n') {
      this.#row++;
      this.#column = 0;
      this.#cells[this.#row] ??= '';
    } else if (part === '\r') this.#column = 0;
    else if (part === `${csi}?25l`) this.cursorVisible = false;
    else if (part === `${csi}?25h`) this.cursorVisible = true;
    else if (part === `${csi}K`) this.#cells[this.#row] = line.slice(0, this.#column);
    else if (part === `${csi}J`) {
      this.#cells.length = this.#row + 1;
      this.#cells[this.#row] = line.slice(0, this.#column);
    } else if (part.startsWith(csi) && part.endsWith('A'))
      this.#row = Math.max(0, this.#row - Number(part.slice(2, -1)));
    else if (!part.startsWith(csi)) {
      this.#cells[this.#row] = line.slice(0, this.#column) + part + line.slice(this.#column + part.length);
      this.#column += part.length;
    }
  }
}
