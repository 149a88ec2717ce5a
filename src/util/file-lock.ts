import { closeSync, existsSync, openSync } from 'node:fs';
import { DatabaseSync } from '../platform/sqlite.ts';

/** A lock on a file. It ends when it is released or the process dies. */
export interface FileLock {
  /** May be called repeatedly. */
  release: () => void;
}

/**
 * Locks a file, which is created if it is missing. Null if it is locked, by this or another process.
 * @throws The system's error, or SQLite's (`ERR_SQLITE_ERROR`), if it cannot be locked.
 */
export function lockFile(file: string): FileLock | null {
  // The operating system releases SQLite's lock when a process dies, so no stale lock remains. A file with a process id
  // could be mistaken for the lock of a newer process. SQLite would create the file readable for everyone. An existing
  // file is not opened: closing it would drop its locks.
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600));
  // The timeout is for whoever looks whether it is locked.
  const database = new DatabaseSync(file, { timeout: 200 });
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (saysLocked(error)) return null;
    throw error;
  }
  return {
    release: () => {
      if (database.isOpen) database.close();
    },
  };
}

/** Whether a process has locked a file. Locks it for an instant, in which `lockFile` waits. */
export function isLocked(file: string): boolean {
  if (!existsSync(file)) return false;
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: true });
    database.prepare('SELECT count(*) FROM sqlite_master').get();
    return false;
  } catch (error) {
    return saysLocked(error);
  } finally {
    database?.close();
  }
}

const saysLocked = (error: unknown) => error instanceof Error && /locked|busy/i.test(error.message);
