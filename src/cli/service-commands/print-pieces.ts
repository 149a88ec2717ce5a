import { printableLines } from '../../contract/index.ts';

/** Most characters of a terminal command that are held back until its end has come. */
const maxCommand = 64;

/**
 * Prints a text that comes in pieces, without what could command the terminal. A command may be cut anywhere: its
 * beginning is held back until the rest has come.
 */
export function printPieces(print: (text: string) => void): {
  add: (piece: string) => void;
  end: () => void;
} {
  let held = '';
  const flush = (to: number) => {
    if (to > 0) print(printableLines(held.slice(0, to)));
    held = held.slice(to);
  };
  return {
    add(piece) {
      held += piece;
      const begun = held.lastIndexOf('\u001b');
      flush(begun < 0 || held.length - begun > maxCommand ? held.length : begun);
    },
    end: () => flush(held.length),
  };
}
