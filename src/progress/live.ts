import { printable } from '../contract/index.ts';
import { liveLines } from './live-lines.ts';
import { type Panel, Region } from './region.ts';
import { advance, newRun } from './run-progress.ts';
import { clip, type Line, wrap } from './text.ts';
import type { ProgressView, Terminal } from './view.ts';

/** Repaints a run in place on a terminal. What the program writes itself stands above. */
export function createLiveView(
  terminal: Terminal,
  { title = '', now = () => performance.now() }: { title?: string; now?: () => number } = {},
): ProgressView {
  const region = Region.of(terminal, now);
  let progress = newRun(now(), title);
  let notes: string[] = [];
  let isTold = false;
  const close = region.open(
    unfailing((canvas) => {
      const below = notes
        .flatMap((note) => wrap(note, Math.max(8, canvas.columns)))
        .map((text): Line => clip([{ text, style: 'yellow' }], canvas.columns));
      return [
        ...liveLines(progress, { ...canvas, rows: canvas.rows && canvas.rows - below.length }),
        ...below,
      ];
    }),
  );
  return {
    listen: (event) => {
      isTold = true;
      progress = advance(progress, event, now());
    },
    note: (text) => {
      isTold = true;
      notes = [...notes, printable(text)];
      region.paint();
    },
    // A run that was refused before it began has nothing to show.
    close: () => close({ stays: isTold }),
  };
}

/** A run goes on where it cannot be shown: the panel is empty then, and the first reason is warned about. */
function unfailing(panel: Panel): Panel {
  let hasFailed = false;
  return (canvas) => {
    try {
      return panel(canvas);
    } catch (error) {
      if (!hasFailed)
        process.emitWarning(
          `The live view cannot show the run, which goes on. ${error instanceof Error ? error.stack : String(error)}`,
          { code: 'martingale_view_failed' },
        );
      hasFailed = true;
      return [];
    }
  };
}
