import { MartingaleError } from '../contract/basics.ts';

/** Whether an error has one of these codes, such as `ENOENT` of a file that does not exist. */
export const hasCode = (error: unknown, ...codes: readonly string[]): error is Error & { code: string } =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' && codes.includes(error.code);

/** What an error says; any other thrown value as a text. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The stack of an error, which begins with its message; any other thrown value as a text. */
export const traceOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error);

/** Whether the operating system refused something: a file, a disk, a socket. */
export const isSystemError = (error: unknown): error is Error => error instanceof Error && 'syscall' in error;

/**
 * Lets the stack of an error of martingale begin where the program called `entry`, a public function that throws it. Node
 * shows the first line of the stack before the message of an uncaught error. Other errors keep their stack.
 */
export function asThrownBy(entry: (...given: never[]) => unknown, error: unknown): unknown {
  if (error instanceof MartingaleError) Error.captureStackTrace(error, entry);
  return error;
}
