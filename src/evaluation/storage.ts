import { RunError } from '../util/run-error.ts';

/** Error for a file of a run or an evaluation that could not be written. Earlier lines of the file are complete. */
export function storageError(path: string, cause: Error): RunError {
  const message =
    `${path} could not be written: ${cause.message}. ${remedyOf(cause)}, ` +
    'then go on from it: what was written before is whole.';
  return new RunError('storage_failed', message, { cause });
}

const [room, writable, allowed, files] = [
  'Make room on the disk',
  'Make its file system writable',
  'Give this process the right to write there',
  'Let this process open more files (`ulimit -n`)',
];
const remedies: Record<string, string> = {
  ...{ ENOSPC: room, EDQUOT: room, EROFS: writable },
  ...{ EACCES: allowed, EPERM: allowed, EMFILE: files, ENFILE: files },
};

const remedyOf = (cause: Error) =>
  ('code' in cause && remedies[String(cause.code)]) || 'Mend what is wrong there';

/** Runs work that writes to `path`. @throws RunError (`storage_failed`) for an error of the operating system. */
export async function storing<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw storageError(path, error);
    throw error;
  }
}
