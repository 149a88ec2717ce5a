import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { StorageError } from '../evaluation/index.ts';
import { DatabaseSync } from '../platform/sqlite.ts';
import { RunInUseError } from './errors.ts';

/** File in a run directory that one process at a time holds. */
export const lockFile = 'run.lock';

/** Holds a run directory until it is released, or the process dies. */
export interface RunLock {
  /** Harmless when repeated. */
  release: () => void;
}

/**
 * Holds a run directory for this process alone.
 * @throws RunInUseError where another run, in this process or another, holds it, StorageError where it cannot be held.
 */
export function lockRun(path: string): RunLock {
  // The operating system holds SQLite's lock for the process: one that is killed leaves none behind, and no id of a
  // dead process can be mistaken for a living one.
  const file = join(path, lockFile);
  const database = openLock(file);
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message))
      throw new RunInUseError(path, { cause });
    throw notLocked(file, cause);
  }
  return {
    release: () => {
      if (database.isOpen) database.close();
    },
  };
}

function openLock(file: string): DatabaseSync {
  try {
    // SQLite would make it for everybody to read. One that is there is not opened: closing it would end its locks.
    if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600));
    return new DatabaseSync(file);
  } catch (cause) {
    throw notLocked(file, cause);
  }
}

const notLocked = (file: string, cause: unknown) =>
  new StorageError(file, cause instanceof Error ? cause : new Error(String(cause)));
