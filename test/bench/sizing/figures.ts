import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** The sum of the sizes of a folder's files. */
export async function diskBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map(async ({ parentPath, name }) => (await stat(join(parentPath, name)).catch(() => null))?.size ?? 0);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

let collect: (() => void) | undefined;

/** Heap of this process after a garbage collection, with buffers outside it. */
export function heapBytes(): number {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc');
  }
  // Buffers outside the heap are freed after the collection that found them, the next one waits for that.
  collect?.();
  collect?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** CPU milliseconds of a process: of its main thread, and of all others. */
export interface CpuTimes {
  main: number;
  others: number;
}

/** CPU time of this process so far; asked in its main thread. */
export function cpuTimes(): CpuTimes {
  const msOf = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1000;
  const main = msOf(process.threadCpuUsage());
  return { main, others: msOf(process.cpuUsage()) - main };
}
