import { open, rm } from 'node:fs/promises';
import { privateFile } from './private-file.ts';

/** More than a file system gives away of what it keeps for itself, such as in a file's last block. */
const block = Buffer.alloc(64 * 1024, 1);

/** Writes a file durably and removes it. Rejects where that cannot be done. */
export async function checkDisk(path: string): Promise<void> {
  const file = await open(path, 'w', privateFile);
  try {
    await file.writeFile(block);
    await file.sync();
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
}
