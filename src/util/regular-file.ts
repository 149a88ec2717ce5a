import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

// Opening a pipe for reading would otherwise wait for a writer, perhaps forever.
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

/**
 * Opens a file that somebody else wrote, for reading: a regular one, no pipe, device, socket or folder, whose reading may
 * never end. Links are followed. Errors of the file system, such as ENOENT, are thrown as they are.
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  const handle = await open(path, flags);
  try {
    check(await handle.stat(), Number.POSITIVE_INFINITY);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The content of such a file. @param maxBytes A larger file is an error. */
export function readRegularFile(path: string, maxBytes: number): Buffer {
  const descriptor = openSync(path, flags);
  try {
    check(fstatSync(descriptor), maxBytes);
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function check(stats: Stats, maxBytes: number): void {
  if (!stats.isFile()) throw new Error(`it is ${kindOf(stats)}, not a regular file`);
  if (stats.size > maxBytes) throw new Error(`it has ${stats.size} bytes; the maximum is ${maxBytes}`);
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a named pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}
