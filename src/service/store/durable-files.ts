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

/** Copies a file and syncs it. Shares disk blocks if the file system can. */
export async function copyDurably(source: string, target: string): Promise<void> {
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await using file = await open(target, 'r+');
  // The copy would get the mode of its source.
  await file.chmod(privateFile);
  await file.sync();
}

/** Copies a part of a file into a new one and syncs it. @param end The byte after the last. Default: the end of the file. */
export async function copyPart(
  source: string,
  target: string,
  { start, end = Number.POSITIVE_INFINITY }: { start: number; end?: number },
): Promise<void> {
  await using from = await open(source, 'r');
  await using to = await open(target, 'wx', privateFile);
  if (end > start)
    for await (const piece of from.createReadStream({ start, end: end - 1, autoClose: false }))
      await to.appendFile(piece);
  await to.sync();
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
