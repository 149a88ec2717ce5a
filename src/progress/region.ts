import { stripVTControlCharacters } from 'node:util';
import { listenForErrors } from '../util/stream-errors.ts';
import { sumOf } from '../util/sums.ts';
import { type Canvas, displayWidth, type Line, lineWidth, paint, showsColors } from './text.ts';
import type { Terminal } from './view.ts';

const repaintIntervalMs = 100;
const csi = '\x1b[';
/** Synchronized output: terminals that support it show the whole frame at once; others ignore it. */
const beginFrame = `${csi}?2026h`;
const endFrame = `${csi}?2026l`;
const eraseLineEnd = `${csi}K`;
const eraseBelow = `${csi}J`;

/** Draws lines at the bottom of a terminal, at most `rows` if given. */
export type Panel = (canvas: Canvas & { rows?: number }) => Line[];

type Write = Terminal['write'];

const regions = new WeakMap<object, Region>();

/** Rows that lines take on a terminal. It may be narrower than when they were written. */
const rowsOf = (lines: readonly Line[], columns: number): number =>
  sumOf(lines, (line) => Math.max(1, Math.ceil(lineWidth(line) / columns)));

/** For a stream of the process: its standard streams that are terminals. Else the terminal alone. */
function streamsOf(terminal: Terminal): Terminal[] {
  const own: Terminal[] = [process.stderr, process.stdout];
  return own.includes(terminal) ? own.filter(({ isTTY }) => isTTY) : [terminal];
}

/**
 * The lower rows of a terminal, repainted in place at most ten times a second and only after a change. All views of a
 * process share them. While a view is open, the region intercepts writes to the terminal's streams, and puts the
 * program's own output above the views. It never hides the cursor or sets a terminal mode, so that a killed process
 * leaves a usable terminal.
 */
export class Region {
  readonly #terminal: Terminal;
  readonly #now: () => number;
  readonly #panels: Panel[] = [];
  readonly #program = new ProgramOutput();
  #painted: Line[] = [];
  #shown = '';
  #programWroteAtMs = Number.NEGATIVE_INFINITY;
  #write: Write;
  #unwatch: () => void = () => undefined;

  private constructor(terminal: Terminal, now: () => number) {
    this.#terminal = terminal;
    this.#now = now;
    this.#write = terminal.write.bind(terminal);
  }

  /** The region of a terminal. */
  static of(terminal: Terminal, now: () => number): Region {
    const streams = streamsOf(terminal);
    const known = regions.get(streams[0] ?? terminal);
    if (known) return known;
    const region = new Region(terminal, now);
    for (const stream of [terminal, ...streams]) regions.set(stream, region);
    return region;
  }

  /** Shows a panel below the others. Returns a function that closes it; with `stays`, its last state stays above. */
  open(panel: Panel): (last: { stays: boolean }) => void {
    if (this.#panels.length === 0) this.#watch();
    this.#panels.push(panel);
    let isOpen = true;
    return ({ stays }) => {
      if (!isOpen) return;
      isOpen = false;
      this.#close(panel, stays);
    };
  }

  readonly paint = (): void => {
    const { columns, height } = this.#size;
    const rows = Math.max(1, Math.floor(height / Math.max(1, this.#panels.length)));
    const lines = this.#panels.flatMap((panel) => panel({ columns, rows, nowMs: this.#now() }));
    const frame = this.#frame(lines);
    if (frame === this.#shown) return;
    this.#write(`${beginFrame}${this.#moveToStart}${frame}${eraseBelow}${endFrame}`);
    this.#painted = lines;
    this.#shown = frame;
  };

  #close(panel: Panel, stays: boolean): void {
    const { columns } = this.#size;
    // All of its lines, even beyond the terminal's rows: they are not repainted.
    const last = stays ? this.#frame(panel({ columns, nowMs: this.#now() })) : '';
    this.#write(`${beginFrame}${this.#moveToStart}${last}${eraseBelow}${endFrame}`);
    this.#panels.splice(this.#panels.indexOf(panel), 1);
    this.#markUnpainted();
    // The last state ends in a line break.
    this.#program.append('\n');
    if (this.#panels.length === 0) this.#unwatch();
    else this.paint();
  }

  /** The painted panels are no longer at the cursor. */
  #markUnpainted(): void {
    this.#painted = [];
    this.#shown = '';
  }

  #frame(lines: readonly Line[]): string {
    const colors = showsColors(this.#terminal);
    return lines.map((line) => `${paint(line, colors)}${eraseLineEnd}\n`).join('');
  }

  /** Moves the cursor to the start of the panels: up if they are painted, else below an unfinished line of the program. */
  get #moveToStart(): string {
    const up = rowsOf(this.#painted, this.#size.columns + 1);
    if (up > 0) return `\r${csi}${up}A`;
    return this.#program.line === '' ? '\r' : '\n';
  }

  get #size(): { columns: number; height: number } {
    const { columns, rows } = this.#terminal;
    // Leave the last cell free: terminals differ in where the cursor goes after it.
    return { columns: Math.max(1, (columns || 80) - 1), height: Math.max(1, (rows || 24) - 1) };
  }

  #watch(): void {
    const repaintAll = () => {
      this.#shown = '';
      this.paint();
    };
    const timer = setInterval(this.paint, repaintIntervalMs).unref();
    this.#terminal.on('resize', repaintAll);
    const own = this.#terminal;
    const streams = streamsOf(own);
    // The run continues if the terminal is closed.
    for (const stream of streams) listenForErrors(stream, ignore);
    this.#write = own.write.bind(own);
    const restores = streams.map((stream) =>
      watchStream(stream, (text, write) => this.#writeAbove(text, write)),
    );
    this.#unwatch = () => {
      clearInterval(timer);
      this.#terminal.off('resize', repaintAll);
      for (const restore of restores) restore();
      // The last write may fail later.
      for (const stream of streams) stream.write('', () => stream.off('error', ignore));
    };
  }

  /** Writes the program's own output above the panels. */
  #writeAbove(text: string, write: (text: string) => boolean): boolean {
    if (text === '') return write('');
    const nowMs = this.#now();
    const isBusy = nowMs - this.#programWroteAtMs < repaintIntervalMs;
    this.#programWroteAtMs = nowMs;
    if (this.#shown === '') {
      this.#program.append(text);
      return write(text);
    }
    const columns = this.#size.columns + 1;
    const up = rowsOf(this.#painted, columns) + this.#program.rows(columns);
    const whole = this.#program.append(text);
    const erase = `${up > 0 ? `\r${csi}${up}A` : '\r'}${eraseBelow}`;
    if (isBusy) {
      // Many lines at once: the next repaint puts the panels below them.
      this.#markUnpainted();
      return write(`${erase}${whole}`);
    }
    const gap = this.#program.line === '' ? '' : '\n';
    return write(`${beginFrame}${erase}${whole}${gap}${this.#shown}${endFrame}`);
  }
}

function ignore(): void {}

/** Passes every write to a stream to `onText`. Returns a function that ends this. */
function watchStream(
  stream: Terminal,
  onText: (text: string, write: (text: string) => boolean) => boolean,
): () => void {
  const original = stream.write;
  const pass = original.bind(stream);
  const decoder = new TextDecoder();
  let isWatched = true;
  const write: Write = (
    chunk: string | Uint8Array,
    encodingOrDone?: BufferEncoding | ((error?: Error | null) => void),
    whenDone?: (error?: Error | null) => void,
  ) => {
    const encoding = typeof encodingOrDone === 'string' ? encodingOrDone : 'utf8';
    const done = typeof encodingOrDone === 'function' ? encodingOrDone : whenDone;
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
    if (!isWatched) return pass(bytes, done);
    return onText(decoder.decode(bytes, { stream: true }), (text) => pass(text, 'utf8', done));
  };
  stream.write = write;
  return () => {
    isWatched = false;
    // If other code has replaced `write` since, ours stays below it and only passes text on.
    if (stream.write === write) stream.write = original;
  };
}

/** Maximum length of an unfinished line to keep, in characters: it is written again with each new part. */
const maxLineLength = 4096;

/** Tracks the unfinished last line of the program's own output. */
class ProgramOutput {
  /** The line as it was written, with escape codes. */
  #line = '';

  get line(): string {
    return this.#line;
  }

  /** Rows that the line takes on a terminal. */
  rows(columns: number): number {
    if (this.#line === '') return 0;
    return Math.max(1, Math.ceil(displayWidth(stripVTControlCharacters(this.#line)) / columns));
  }

  /** Adds a text. Returns the text to write if the unfinished line has been erased. */
  append(text: string): string {
    const whole = this.#line + text;
    const last = whole.slice(whole.lastIndexOf('\n') + 1);
    // A carriage return overwrites the line.
    const shown = last.slice(last.lastIndexOf('\r', last.length - 2) + 1);
    const isLong = shown.length > maxLineLength;
    this.#line = isLong ? '' : shown;
    return isLong ? `${whole}\n` : whole;
  }
}
