import { MartingaleError } from '../contract/index.ts';

/** One line about whatever was thrown, also where it is no error, or hides what it is. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown.message || thrown.name;
    return String(thrown);
  } catch {
    return 'something that cannot be written as text';
  }
}

/** `code` of an error of martingale, else the name of its class, for counting; `thrown` for what is no error. */
export function codeOfThrown(thrown: unknown): string {
  try {
    if (MartingaleError.isInstance(thrown)) return thrown.code;
    if (thrown instanceof Error)
      return typeof thrown.name === 'string' && thrown.name ? thrown.name : 'Error';
  } catch {
    // A name that cannot be read is none.
  }
  return 'thrown';
}

/** What was given in place of a number, such that the text "1" does not read like one. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'bigint' ? `the bigint ${value}` : describeThrown(value);
}
