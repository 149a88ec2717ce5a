import { join } from 'node:path';
import { storageError } from '../util/durable-files.ts';
import { type FileLock, isLocked, lockFile } from '../util/file-lock.ts';
import { RunError } from '../util/run-error.ts';

/** File in a run directory that one process at a time locks. */
const lockName = 'run.lock';

/**
 * Locks a run directory.
 * @throws RunError if another run, in this or another process, has locked it, or if it cannot be locked.
 */
export function lockRun(path: string): FileLock {
  const file = join(path, lockName);
  let lock: FileLock | null;
  try {
    lock = lockFile(file);
  } catch (cause) {
    throw storageError(file, cause instanceof Error ? cause : new Error(String(cause)));
  }
  if (lock) return lock;
  throw new RunError(
    'run_in_use',
    `Another run is using ${path}. Wait for its end, stop it, or choose another \`runDirectory\`.`,
  );
}

/** Whether a process works on a run at this moment. */
export const isRunActive = (path: string): boolean => isLocked(join(path, lockName));

/** Default path of a run: `runs/<ISO date>-<name>`, only with characters that every file system accepts. */
export function defaultRunDirectory(name: string): string {
  const date = new Date().toISOString().replaceAll(':', '-');
  return join('runs', `${date}-${name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}`);
}

/** Files and folders that may exist before the run's model is open. */
export const begunFiles: readonly string[] = [
  'trajectories',
  'jobs',
  'config.json.partial',
  'events.jsonl',
  'summary.json',
  lockName,
  `${lockName}-journal`,
];

/** Whether a folder with these files contains a run. */
export const isRun = (names: readonly string[]) =>
  names.includes('config.json') || names.every((name) => begunFiles.includes(name));

/** `step-0000`. Padded, so that names sort like steps. */
export const stepName = (step: number) => `step-${String(step).padStart(4, '0')}`;

/** File of what the job of a step found of its tokens, relative to the run directory. */
export const tokensFile = (step: number) => `tokens/${stepName(step)}.jsonl`;
