import { jsonLine, printable, printableLines } from '../contract/index.ts';
import { invalidOption } from '../util/option-error.ts';
import { listenForErrors } from '../util/stream-errors.ts';
import { createLiveView } from './live.ts';
import { createPlainView } from './plain.ts';
import type { RunEvent } from './run-event.ts';
import type { Output, ProgressView, Terminal } from './view.ts';

/**
 * How to show a run:
 *
 * - absent: a live view if standard error is a terminal and the environment has no `CI`, else plain lines on it
 * - `true`: a live view if standard error is a terminal, with `CI` too, else plain lines on it
 * - `'plain'`: a line for each phase and about every tenth step, on standard error
 * - `'json'`: one JSON object per line, on standard output
 * - `false`: nothing
 *
 * Output of the program itself appears above a live view. Several runs of one process share the terminal. If the
 * output can no longer be written, as with a closed pipe, the view ends and the run continues.
 */
export type ProgressOption = boolean | 'plain' | 'json';

interface OpenProgressOptions {
  /** Title of a live view until the model's name is known. */
  title?: string;
  /** Output for people. Default: standard error. */
  terminal?: Terminal;
  /** Output for programs. Default: standard output. */
  output?: Terminal;
}

/** Whether a stream is a terminal that can repaint lines. */
const canRepaint = ({ isTTY }: Pick<Terminal, 'isTTY'>): boolean =>
  isTTY === true && process.env.TERM !== 'dumb';

const isOnCi = () => !['', '0', 'false', undefined].includes(process.env.CI);

/** The view of a `progress` option; null for `false`. @throws OptionError (`invalid_progress`) */
export function openProgress(option: true | 'plain' | 'json', options?: OpenProgressOptions): ProgressView;
export function openProgress(
  option: ProgressOption | undefined,
  options?: OpenProgressOptions,
): ProgressView | null;
export function openProgress(
  option: ProgressOption | undefined,
  { title, terminal = process.stderr, output = process.stdout }: OpenProgressOptions = {},
): ProgressView | null {
  if (![undefined, true, false, 'plain', 'json'].includes(option))
    throw invalidOption('invalid_progress', 'progress', option, 'Pass true, false, "plain" or "json".');
  if (option === false) return null;
  if (option === 'json') return onStream(output, (to) => createJsonView(to, terminal));
  const isPlain = option === 'plain' || (option === undefined && isOnCi()) || !canRepaint(terminal);
  if (isPlain) return onStream(terminal, withRunNames(title));
  return createLiveView(terminal, title === undefined ? {} : { title });
}

/** A view that shows nothing more once its stream fails, as after the reader of a pipe exits. */
function onStream(stream: Terminal, create: (output: Output) => ProgressView): ProgressView {
  let isOpen = true;
  const end = () => {
    isOpen = false;
  };
  listenForErrors(stream, end);
  const view = create({ write: (text) => isOpen && stream.writable && stream.write(text) });
  return {
    ...view,
    close: () => {
      view.close();
      const detach = () => stream.off('error', end);
      // The last write may fail later.
      if (isOpen && stream.writable) stream.write('', detach);
      else setImmediate(detach);
      isOpen = false;
    },
  };
}

const plainViews = new Set<object>();

/** Plain lines; with several runs in the process, each line begins with its run's name. */
function withRunNames(title = ''): (output: Output) => ProgressView {
  return (output) => {
    const own = {};
    plainViews.add(own);
    let name = title;
    const mark = (text: string) => (plainViews.size > 1 ? text.replace(/^(?=.)/gm, `[${name}] `) : text);
    const view = createPlainView({ write: (text) => output.write(mark(text)) });
    return {
      ...view,
      listen: (event) => {
        if (event.type === 'run_started') name = printable(event.model.replace(/:step\d+$/, ''));
        view.listen(event);
      },
      close: () => {
        plainViews.delete(own);
        view.close();
      },
    };
  };
}

/** Writes one JSON object and a line break. */
export function writeJsonLine(output: Output, value: object): void {
  output.write(jsonLine(value));
}

/** An event for programs; null for events that only move a bar. A phase keeps its start and its end. */
function jsonEvent(event: RunEvent): object | null {
  switch (event.type) {
    case 'rollouts':
    case 'job':
      return null;
    case 'phase':
      return event.done > 0 && event.total !== null && event.done < event.total ? null : event;
    case 'evaluated': {
      const { examples: _, ...rest } = event;
      return rest;
    }
    case 'run_started': {
      const { finishedReports: _, ...rest } = event;
      return rest;
    }
    default:
      return event;
  }
}

/** Writes only JSON objects, one per line, to `output`, and notes to `notes`. */
export function createJsonView(output: Output, notes: Output): ProgressView {
  let reportedPhase = '';
  return {
    listen: (event) => {
      const value = jsonEvent(event);
      if (value === null) return;
      if (event.type === 'phase') {
        const reported = `${event.phase} ${event.done}`;
        if (reported === reportedPhase) return;
        reportedPhase = reported;
      }
      writeJsonLine(output, value);
    },
    note: (text) => notes.write(`${printableLines(text)}\n`),
    close: () => {},
  };
}
