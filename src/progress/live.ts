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
  let isTold = false;
  const close = region.open((canvas) => [
    ...liveLines(progress, { ...canvas, rows: canvas.rows && canvas.rows - notes.length }),
    ...notes.map((note) => clip(note, canvas.columns)),
  ]);
  return {
    listen: (event) => {
      isTold = true;
      progress = advance(progress, event, now());
    },
    note: (text) => {
      isTold = true;
      notes = [...notes, [{ text, style: 'yellow' }]];
      region.paint();
    },
    // A run that was refused before it began has nothing to show.
    close: () => close({ stays: isTold }),
  };
}
