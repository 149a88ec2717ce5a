import { printable } from '../contract/index.ts';
import { traceOf } from '../util/error.ts';
import { warn } from '../util/warning.ts';
import { liveLines } from './live-lines.ts';
import { type Panel, Region } from './region.ts';
import { advance, newRun } from './run-progress.ts';
import { clip, type Line, wrap } from './text.ts';
import type { ProgressView, Terminal } from './view.ts';

/** Shows a run in place on a terminal, below the program's own output. */
export function createLiveView(
  terminal: Terminal,
  { title = '', now = () => performance.now() }: { title?: string; now?: () => number } = {},
): ProgressView {
  const region = Region.of(terminal, now);
  let progress = newRun(now(), title);
  let notes: string[] = [];
  let hasContent = false;
  const close = region.open(
    safePanel((canvas) => {
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
      hasContent = true;
      progress = advance(progress, event, now());
    },
    note: (text) => {
      hasContent = true;
      notes = [...notes, printable(text)];
      region.paint();
    },
    // A run that was refused at its start leaves nothing on the terminal.
    close: () => close({ stays: hasContent }),
  };
}

/** A panel that cannot stop the run: after an error it is empty, and the first error becomes a warning. */
function safePanel(panel: Panel): Panel {
  let hasFailed = false;
  return (canvas) => {
    try {
      return panel(canvas);
    } catch (error) {
      if (!hasFailed)
        warn('martingale_view_failed', `The live view failed; the run continues. ${traceOf(error)}`);
      hasFailed = true;
      return [];
    }
  };
}
