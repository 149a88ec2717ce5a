import { closeSync, constants, openSync } from 'node:fs';
import { copyFile, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { privateFile, privateFolder, syncFolder } from '../../util/durable-files.ts';
import { hasCode } from '../../util/error.ts';

/**
 * Creates an empty file for SQLite, which would make it readable for everybody; SQLite copies its mode to
 * the side files. An existing file is not even opened, because closing it would release this process's
 * locks on it.
 */
export function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', privateFile));
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

/** Copies regular files and folders and syncs each. Shares disk blocks if the file system can. */
export async function copyFolder(from: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true });
  await mkdir(to, { mode: privateFolder });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyFolder(source, target);
    else await copyDurably(source, target);
  }
  await syncFolder(to);
}

async function copyDurably(source: string, target: string): Promise<void> {
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await using file = await open(target, 'r+');
  // The copy would get the mode of its source.
  await file.chmod(privateFile);
  await file.sync();
}

/** More than a file system could still fit into reserved space, such as a file's last block. */
const block = Buffer.alloc(64 * 1024, 1);

/** Writes a file durably and removes it again. Rejects if that fails. */
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
