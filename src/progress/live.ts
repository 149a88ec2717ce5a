import { liveLines } from './live-lines.ts';
import type { RunEvent } from './run-event.ts';
import { advance, newRun } from './run-progress.ts';
import { clip, type Line, lineWidth, paint, showsColors } from './text.ts';
import type { ProgressView, Terminal } from './view.ts';

const repaintIntervalMs = 100;
const csi = '\x1b[';
const hideCursor = `${csi}?25l`;
const showCursor = `${csi}?25h`;
/** Terminals that know it show the whole frame at once; the others ignore it. */
const beginFrame = `${csi}?2026h`;
const endFrame = `${csi}?2026l`;
const eraseLineEnd = `${csi}K`;
const eraseBelow = `${csi}J`;

/** Rows that lines take on a terminal which may have become narrower since they were written. */
const rowsOf = (lines: readonly Line[], columns: number): number =>
  lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(lineWidth(line) / columns)), 0);

/**
 * Repaints a run in place on a terminal, at most ten times a second and only what the view has to say anew.
 * The cursor comes back on `close` and whenever the process exits.
 */
export function createLiveView(
  terminal: Terminal,
  now: () => number = () => performance.now(),
): ProgressView {
  const colors = showsColors(terminal);
  let progress = newRun(now());
  let painted: Line[] = [];
  let shown = '';
  let notes: Line[] = [];
  let open = true;

  const paintFrame = () => {
    // The last cell stays free: terminals differ in where the cursor is after it.
    const columns = Math.max(1, (terminal.columns || 80) - 1);
    const height = Math.max(1, (terminal.rows || 24) - 1);
    const view = liveLines(progress, { columns, nowMs: now() });
    const lines = [...view, ...notes.map((note) => clip(note, columns))].slice(-height);
    const frame = lines.map((line) => `${paint(line, colors)}${eraseLineEnd}\n`).join('');
    if (frame === shown) return;
    const up = rowsOf(painted, columns + 1);
    const home = up > 0 ? `\r${csi}${up}A` : '';
    terminal.write(`${beginFrame}${hideCursor}${home}${frame}${eraseBelow}${endFrame}`);
    painted = lines;
    shown = frame;
  };

  const repaintAfterResize = () => {
    shown = '';
    paintFrame();
  };
  const restoreCursor = () => terminal.write(showCursor);
  const timer = setInterval(paintFrame, repaintIntervalMs).unref();
  terminal.on('resize', repaintAfterResize);
  process.once('exit', restoreCursor);

  return {
    listen: (event: RunEvent) => {
      progress = advance(progress, event, now());
    },
    note: (text) => {
      notes = [...notes, [{ text, style: 'yellow' }]];
      paintFrame();
    },
    close: () => {
      if (!open) return;
      open = false;
      clearInterval(timer);
      terminal.off('resize', repaintAfterResize);
      process.off('exit', restoreCursor);
      paintFrame();
      restoreCursor();
    },
  };
}
