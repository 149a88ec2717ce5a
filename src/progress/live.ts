import { liveLines } from './live-lines.ts';
import { Region } from './region.ts';
import { advance, newRun } from './run-progress.ts';
import { clip, type Line } from './text.ts';
import type { ProgressView, Terminal } from './view.ts';

/** Repaints a run in place on a terminal. What the program writes itself stands above. */
export function createLiveView(
  terminal: Terminal,
  { title = '', now = () => performance.now() }: { title?: string; now?: () => number } = {},
): ProgressView {
  const region = Region.of(terminal, now);
  let progress = newRun(now(), title);
  let notes: Line[] = [];
  const close = region.open((canvas) => [
    ...liveLines(progress, { ...canvas, rows: canvas.rows && canvas.rows - notes.length }),
    ...notes.map((note) => clip(note, canvas.columns)),
  ]);
  return {
    listen: (event) => {
      progress = advance(progress, event, now());
    },
    note: (text) => {
      notes = [...notes, [{ text, style: 'yellow' }]];
      region.paint();
    },
    close,
  };
}
