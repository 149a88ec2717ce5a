import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '../platform/sqlite.ts';
import { storageError } from '../util/durable-files.ts';
import { RunError } from '../util/run-error.ts';

/** File in a run directory that one process at a time locks. */
const lockFile = 'run.lock';

/** A lock on a run directory. It ends when it is released or the process dies. */
export interface RunLock {
  /** May be called repeatedly. */
  release: () => void;
}

/**
 * Locks a run directory.
 * @throws RunError if another run, in this or another process, has locked it, or if it cannot be locked.
 */
export function lockRun(path: string): RunLock {
  // The operating system releases SQLite's lock when a process dies, so no stale lock remains. A file with a process id
  // could be mistaken for the lock of a newer process.
  const file = join(path, lockFile);
  const database = openLock(file);
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message))
      throw new RunError(
        'run_in_use',
        `Another run is using ${path}. Wait for its end, stop it, or choose another \`runDirectory\`.`,
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

/**
 * Whether a process works on a run at this moment. Reads the lock alone, for an instant in which a beginning run waits.
 */
export function isRunActive(path: string): boolean {
  const file = join(path, lockFile);
  if (!existsSync(file)) return false;
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: true });
    database.prepare('SELECT count(*) FROM sqlite_master').get();
    return false;
  } catch (error) {
    return error instanceof Error && /locked|busy/i.test(error.message);
  } finally {
    database?.close();
  }
}

function openLock(file: string): DatabaseSync {
  try {
    // SQLite would create the file readable for everyone. An existing file is not opened: closing it would drop its
    // locks.
    if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600));
    // The timeout is for whoever looks whether the run is active.
    return new DatabaseSync(file, { timeout: 200 });
  } catch (cause) {
    throw notLocked(file, cause);
  }
}

const notLocked = (file: string, cause: unknown) =>
  storageError(file, cause instanceof Error ? cause : new Error(String(cause)));

/** Default path of a run: `runs/<ISO date>-<name>`, only with characters that every file system accepts. */
export function defaultRunDirectory(name: string, now = new Date()): string {
  const date = now.toISOString().replaceAll(':', '-');
  return join('runs', `${date}-${name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}`);
}

/** Files and folders that may exist before the run's model is open. */
export const begunFiles: readonly string[] = [
  'trajectories',
  'jobs',
  'config.json.partial',
  'events.jsonl',
  'summary.json',
  lockFile,
  `${lockFile}-journal`,
];

/** Whether a folder with these files contains a run. */
export const isRun = (names: readonly string[]) =>
  names.includes('config.json') || names.every((name) => begunFiles.includes(name));

/** `step-0000`. Padded, so that names sort like steps. */
export const stepName = (step: number) => `step-${String(step).padStart(4, '0')}`;

/** File of what the job of a step found of its tokens, relative to the run directory. */
export const tokensFile = (step: number) => `tokens/${stepName(step)}.jsonl`;
