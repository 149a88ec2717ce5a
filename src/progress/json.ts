import { jsonLine, printableLines } from '../contract/index.ts';
import type { RunEvent } from './run-event.ts';
import type { Output, ProgressView } from './view.ts';

/** Writes one JSON object and its line end. */
export function writeJsonLine(output: Output, value: object): void {
  output.write(jsonLine(value));
}

/** An event as a program reads it, or null for those that only move a bar: of a phase, its start and end stay. */
export function jsonEvent(event: RunEvent): object | null {
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

/** One JSON object a line, and nothing else, on `output`; notes go to `notes`. */
export function createJsonView(output: Output, notes: Output): ProgressView {
  let toldPhase = '';
  return {
    listen: (event) => {
      const value = jsonEvent(event);
      if (value === null) return;
      if (event.type === 'phase') {
        const told = `${event.phase} ${event.done}`;
        if (told === toldPhase) return;
        toldPhase = told;
      }
      writeJsonLine(output, value);
    },
    note: (text) => notes.write(`${printableLines(text)}\n`),
    close: () => {},
  };
}
