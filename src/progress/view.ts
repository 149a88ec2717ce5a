import type { RunListener } from './run-event.ts';

/** Shows a run as it goes. */
export interface ProgressView {
  /** Takes the events of the run. */
  listen: RunListener;
  /** Shows a line that is no event, such as that the run is stopping. */
  note: (text: string) => void;
  /** Shows the last state and gives the terminal back. Harmless when repeated. */
  close: () => void;
}

/** What a live view needs of a terminal. */
export type Terminal = Pick<
  NodeJS.WriteStream,
  'columns' | 'rows' | 'isTTY' | 'hasColors' | 'write' | 'writable'
> & {
  on: (event: 'resize' | 'error', listener: () => void) => unknown;
  off: (event: 'resize' | 'error', listener: () => void) => unknown;
};

/** What a view writes to: a terminal, a pipe or a file. */
export interface Output {
  write: (text: string) => unknown;
}
