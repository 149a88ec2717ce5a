import { join } from 'node:path';
import { messageOf, ServiceError } from './errors.ts';
import { type FaultCode, faultCodeOf } from './machine-fault.ts';
import { checkDisk } from './store/check-disk.ts';

const remedies: Record<FaultCode, string> = {
  storage_full: 'Make room on that disk, or choose another data folder.',
  storage_read_only:
    'Make the folder writable for the user the service runs as, or choose another data folder.',
  storage_failed: 'Check that disk, or choose another data folder.',
  too_many_files: 'Let the process open more files (ulimit -n).',
  out_of_memory: 'Give the process more memory.',
};

/** What whoever starts the service is told of a data folder that the machine keeps from being opened. */
export async function refusedFolder(error: unknown, dataFolder: string): Promise<unknown> {
  if (error instanceof ServiceError || faultCodeOf(error) === undefined) return error;
  // The database says no more than that it cannot open a file; the disk itself says why.
  const cause: unknown = await checkDisk(join(dataFolder, 'write-check')).then(
    () => error,
    (reason) => reason,
  );
  const code = faultCodeOf(cause);
  if (code === undefined) return cause;
  return new ServiceError(
    500,
    code,
    `The service cannot keep its data in ${dataFolder}: ${messageOf(cause)}. ${remedies[code]}`,
    { cause },
  );
}
