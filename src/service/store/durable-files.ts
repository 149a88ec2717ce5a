import { constants } from 'node:fs';
import { copyFile, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { privateFile, privateFolder } from './private-file.ts';

/** Writes a file that appears whole or not at all, also after a power cut. */
export async function writeWhole(
  path: string,
  content: Uint8Array,
  partial = `${path}.partial`,
): Promise<void> {
  const file = await open(partial, 'w', privateFile);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, path);
  await syncFolder(dirname(path));
}

/** Copies regular files and folders, each synced; shares the blocks where the file system can. */
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
  const file = await open(target, 'r+');
  try {
    // The copy would have the mode of what it is one of.
    await file.chmod(privateFile);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
