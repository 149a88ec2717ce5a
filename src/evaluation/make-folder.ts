import { access, mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/**
 * Makes a folder for this user alone, and those it stands in, where they are not there. One at a time: Node's
 * `recursive` never returns for a path in a file system that makes no folders, such as /proc, and calls a read-only
 * one ENOENT.
 */
export async function makeFolder(path: string): Promise<void> {
  const folder = resolve(path);
  const parent = dirname(folder);
  if (!(await access(parent).then(yes, no))) await makeFolder(parent);
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (!isThereAlready(error) || !(await stat(folder)).isDirectory()) throw error;
  }
}

const yes = () => true;
const no = () => false;

const isThereAlready = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'EEXIST';
