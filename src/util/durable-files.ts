import { access, mkdir, open, readFile, rename, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { isMissing } from './json-lines.ts';

/** Mode of the files and folders that martingale makes: for their user alone, whatever the umask is. */
export const privateFile = 0o600;
export const privateFolder = 0o700;

/**
 * Makes a folder and those it stands in, where they do not exist. One at a time: Node's `recursive` never returns for
 * a path in a file system that makes no folders, such as /proc, and calls a read-only one ENOENT.
 */
export async function makeFolder(path: string): Promise<void> {
  const folder = resolve(path);
  const parent = dirname(folder);
  const hasParent = await access(parent).then(
    () => true,
    () => false,
  );
  if (!hasParent) await makeFolder(parent);
  try {
    await mkdir(folder, { mode: privateFolder });
  } catch (error) {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST';
    if (!isThere || !(await stat(folder)).isDirectory()) throw error;
  }
}

/** Writes a file that appears whole or not at all, also after a power cut. Its folder must exist. */
export async function writeWhole(
  path: string,
  pieces: Iterable<string | Uint8Array>,
  partial = `${path}.partial`,
): Promise<void> {
  {
    await using file = await open(partial, 'w', privateFile);
    for (const piece of pieces) await file.appendFile(piece);
    await file.sync();
  }
  await rename(partial, path);
  await syncFolder(dirname(path));
}

/** Appends a value as a line of JSON. With `durable` the line survives a power cut once this resolves. */
export async function appendLine(
  path: string,
  value: object,
  { durable }: { durable: boolean },
): Promise<void> {
  await using handle = await open(path, 'a', privateFile);
  await handle.appendFile(`${JSON.stringify(value)}\n`);
  if (!durable) return;
  await handle.sync();
  await syncFolder(dirname(path));
}

/** The text of a file; undefined where it does not exist. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Makes the names in a folder durable. Windows has no such call and needs none. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  await using folder = await open(path, 'r');
  await folder.sync();
}
