import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { privateFolder } from './private-file.ts';

/**
 * Makes a folder, and those it stands in, where they are not there. One at a time: Node's `recursive` never returns
 * for a path in a file system that makes no folders, such as /proc.
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
