import type { RunListener } from './run-event.ts';

/** Shows a running run. */
export interface ProgressView {
  /** Listener for the events of the run. */
  listen: RunListener;
  /** Shows a line that is not an event, such as "Stopping". */
  note: (text: string) => void;
  /** Shows the last state and stops painting. Repeated calls do nothing. */
  close: () => void;
}

/** The parts of a terminal stream that a live view uses. */
export type Terminal = Pick<
  NodeJS.WriteStream,
  'columns' | 'rows' | 'isTTY' | 'hasColors' | 'write' | 'writable'
> & {
  on: (event: 'resize' | 'error', listener: () => void) => unknown;
  off: (event: 'resize' | 'error', listener: () => void) => unknown;
};

/** The output of a view: a terminal, a pipe or a file. */
export interface Output {
  write: (text: string) => unknown;
}
