import { closeSync, openSync } from 'node:fs';

/** Modes of what the service makes: for its own user alone, whatever the umask is. */
export const privateFolder = 0o700;
export const privateFile = 0o600;

/**
 * Makes an empty file for SQLite, which would make one for everybody to read, and gives its side files the mode of
 * this one. One that is there is not even opened: closing it again would end the locks that this process has on it.
 */
export function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', privateFile));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}
