import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { storageError } from '../evaluation/index.ts';
import { DatabaseSync } from '../platform/sqlite.ts';
import { RunError } from '../util/run-error.ts';

/** File in a run directory that one process at a time holds. */
export const lockFile = 'run.lock';

/** Holds a run directory until it is released, or the process dies. */
export interface RunLock {
  /** Harmless when repeated. */
  release: () => void;
}

/**
 * Holds a run directory for this process alone.
 * @throws RunError where another run, in this process or another, holds it, and where it cannot be held.
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
      throw new RunError(
        'run_in_use',
        `Another run works in ${path} at this moment. Wait for its end or stop it, or choose another \`runDirectory\`.`,
        { cause },
      );
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
  storageError(file, cause instanceof Error ? cause : new Error(String(cause)));

/** Default path of a run: `runs/<ISO date>-<name>`, with characters that every file system takes. */
export function defaultRunDirectory(name: string, now = new Date()): string {
  const date = now.toISOString().replaceAll(':', '-');
  return join('runs', `${date}-${name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}`);
}

/** The files and folders of a run that was killed, or failed, before it had a model. */
export const begunFiles: readonly string[] = [
  'trajectories',
  'jobs',
  'config.json.partial',
  'events.jsonl',
  'summary.json',
  lockFile,
  `${lockFile}-journal`,
];

/** Whether a folder with these names in it holds a run. */
export const isRun = (names: readonly string[]) =>
  names.includes('config.json') || names.every((name) => begunFiles.includes(name));

/** `step-0000`: names sort as steps do. */
export const stepName = (step: number) => `step-${String(step).padStart(4, '0')}`;
