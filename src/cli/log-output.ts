import { fstatSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';

const standardError = 2;

/**
 * Writes to the standard error output. What cannot be written, as to a file on a full disk, is dropped, and the next
 * text tried again: a stream would not be, and would end the process.
 */
export function logOutput(): (text: string) => void {
  process.stderr.on('error', () => {});
  const found = fstatSync(standardError);
  if (found.isFIFO() || found.isSocket() || isatty(standardError))
    return (text) => void process.stderr.write(text);
  return (text) => {
    try {
      writeSync(standardError, text);
    } catch {
      // There is nowhere to say so.
    }
  };
}
