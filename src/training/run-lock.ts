import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
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
 * @throws RunInUseError where another run, in this process or another, holds it.
 */
export function lockRun(path: string): RunLock {
  // The operating system holds SQLite's lock for the process: one that is killed leaves none behind, and no id of a
  // dead process can be mistaken for a living one.
  const database = new DatabaseSync(join(path, lockFile));
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message))
      throw new RunInUseError(path, { cause });
    throw cause;
  }
  return {
    release: () => {
      if (database.isOpen) database.close();
    },
  };
}
