import { join } from 'node:path';
import { messageOf, ServiceError } from './errors.ts';
import { type FaultCode, faultCodeOf } from './faults.ts';
import { checkDisk } from './store/durable-files.ts';
import { KeyStore } from './store/key-store.ts';

const remedies: Record<FaultCode, string> = {
  storage_full: 'Make room on that disk, or choose another data folder.',
  storage_read_only:
    'Make the folder writable for the user the service runs as, or choose another data folder.',
  storage_failed: 'Check that disk, or choose another data folder.',
  too_many_files: 'Let the process open more files (ulimit -n).',
  out_of_memory: 'Give the process more memory.',
};

/** Errors of paths where no folder can be created, by errno(3) code. */
const wrongPlaces: Record<string, string> = {
  EEXIST: 'A file of that name is there, which is no folder. ',
  ENOTDIR: 'A part of that path is a file. ',
  ENOENT: 'No folder can be made there. ',
  ENAMETOOLONG: '',
  ELOOP: '',
};

function wrongPlace(error: unknown, dataFolder: string): ServiceError | null {
  if (!(error instanceof Error && 'code' in error)) return null;
  const why = wrongPlaces[String(error.code)];
  if (why === undefined) return null;
  return new ServiceError(
    500,
    'bad_data_folder',
    `The service cannot keep its data in ${dataFolder}: ${error.message}. ${why}Choose another data folder.`,
    { cause: error },
  );
}

/** The error to show when the data folder cannot be opened. */
export async function refusedFolder(error: unknown, dataFolder: string): Promise<unknown> {
  if (error instanceof ServiceError) return error;
  if (faultCodeOf(error) === undefined) return wrongPlace(error, dataFolder) ?? error;
  // SQLite only says that it cannot open the file; writing a file shows the reason.
  const cause: unknown = await checkDisk(join(dataFolder, 'write-check')).then(
    () => error,
    (reason) => (faultCodeOf(reason) === undefined ? error : reason),
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

/**
 * Opens the key store of a data folder and creates both if they are missing.
 *
 * @throws ServiceError `bad_data_folder`, `storage_full`, `storage_read_only` or `storage_failed` if that
 * fails.
 */
export async function openKeys(dataFolder: string): Promise<KeyStore> {
  try {
    return await KeyStore.open(dataFolder);
  } catch (error) {
    throw await refusedFolder(error, dataFolder);
  }
}
