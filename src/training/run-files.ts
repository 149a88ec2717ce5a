import { type FileHandle, mkdir, open, readFile, rename, rm, truncate } from 'node:fs/promises';
import { dirname } from 'node:path';
import { storing } from '../evaluation/index.ts';

/** Writes a file that is whole or absent, and durable when this returns. @throws StorageError */
export function writeWhole(path: string, pieces: Iterable<string>): Promise<void> {
  return storing(path, async () => {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const partial = `${path}.partial`;
    {
      await using handle = await open(partial, 'w', 0o600);
      for (const piece of pieces) await handle.appendFile(piece);
      await handle.sync();
    }
    await rename(partial, path);
    await syncFolder(path);
  });
}

/** Appends a line, durable when this returns where `durable` says so. @throws StorageError */
export function appendLine(path: string, value: object, { durable }: { durable: boolean }): Promise<void> {
  return storing(path, async () => {
    await using handle: FileHandle = await open(path, 'a', 0o600);
    await handle.appendFile(`${JSON.stringify(value)}\n`);
    if (!durable) return;
    await handle.sync();
    await syncFolder(path);
  });
}

/** Undefined where there is no such file. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * The whole lines of a file of JSON lines, at most `count` of them, none where it is absent. What a killed process
 * left of a last line, and the lines behind `count`, are cut off, so that the next line begins on its own.
 */
export async function takeUpLines(path: string, count = Number.POSITIVE_INFINITY): Promise<string[]> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
  const lines: string[] = [];
  let whole = 0;
  while (lines.length < count) {
    const end = bytes.indexOf(0x0a, whole);
    if (end < 0) break;
    lines.push(bytes.toString('utf8', whole, end));
    whole = end + 1;
  }
  if (whole < bytes.length) await storing(path, () => truncate(path, whole));
  return lines;
}

/** @throws StorageError */
export async function removeFile(path: string): Promise<void> {
  await storing(path, () => rm(path, { force: true }));
}

/** A new name is durable once its folder is; Windows has no such call and needs none. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  await using folder = await open(dirname(path), 'r');
  await folder.sync();
}
