import { MartingaleError } from '../contract/index.ts';

/** A file of a run or of an evaluation could not be written. What was written before is whole. */
export class StorageError extends MartingaleError {
  constructor(path: string, cause: Error) {
    super(
      'storage_failed',
      `${path} could not be written: ${cause.message}. ${remedyOf(cause)}, ` +
        'then go on from it: what was written before is whole.',
      { cause },
    );
  }
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

/** Writes something at a path. @throws StorageError for what the system says of it. */
export async function storing<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw new StorageError(path, error);
    throw error;
  }
}
