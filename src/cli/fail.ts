import { MartingaleError, printableLines } from '../contract/index.ts';

/** The system's own errors, such as a port that is taken: their message says it all. */
const isSystemError = (error: unknown): error is Error => error instanceof Error && 'syscall' in error;

const remedyOf = (error: Error): string =>
  'code' in error && error.code === 'EADDRINUSE'
    ? '. Stop what listens there, or choose another --port.'
    : '';

/**
 * Tells a person what went wrong: our errors and the system's by their message, anything else with its stack. A
 * message may hold what another machine said, and does nothing to the terminal.
 */
export function describeFailure(error: unknown): string {
  return printableLines(describe(error));
}

function describe(error: unknown): string {
  if (MartingaleError.isInstance(error)) return `error: ${error.message} [${error.code}]`;
  if (isSystemError(error)) return `error: ${error.message}${remedyOf(error)}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
