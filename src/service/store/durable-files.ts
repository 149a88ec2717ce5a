import { closeSync, constants, existsSync, mkdirSync, openSync, statSync } from 'node:fs';
import { copyFile, mkdir, open, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Modes of files and folders that the service creates: only for its own user, whatever the umask. */
export const privateFolder = 0o700;
export const privateFile = 0o600;

/**
 * Creates an empty file for SQLite, which would make it readable for everybody; SQLite copies its mode to
 * the side files. An existing file is not even opened, because closing it would release this process's
 * locks on it.
 */
export function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', privateFile));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
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
  const file = await open(target, 'r+');
  try {
    // The copy would get the mode of its source.
    await file.chmod(privateFile);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the entries of a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/**
 * Creates a folder and its missing parents. One by one, because Node's `recursive` never returns on file
 * systems that cannot create folders, such as /proc.
 */
export function makeFolder(path: string): void {
  const parent = dirname(path);
  if (!existsSync(parent)) makeFolder(parent);
  try {
    mkdirSync(path, { mode: privateFolder });
  } catch (error) {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory() || !isThereAlready(error)) throw error;
  }
}

const isThereAlready = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'EEXIST';

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
