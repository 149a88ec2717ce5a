import { execFile } from 'node:child_process';
import { readdir, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { sumOf } from '../../../../util/sums.ts';

/** What one sandbox may use. */
export interface SandboxBounds {
  /** Processes at the same time. */
  maxProcesses: number;
  /** Bytes of all its files, each with 1 KiB more. */
  maxDiskBytes: number;
}

const everyMs = 500;
const run = promisify(execFile);

/**
 * Looks at what a command uses while it runs, and calls `onExceeded` when that is beyond a bound. Limits of processes do
 * not hold for root, and none of Linux holds for all files of a sandbox.
 *
 * @param firstProcess The process whose end ends all others of the sandbox.
 * @returns Ends the watch.
 */
export function watch(
  firstProcess: number,
  {
    folder,
    bounds,
    onExceeded,
  }: { folder: string; bounds: SandboxBounds; onExceeded: (what: string) => void },
): () => void {
  const ending = new AbortController();
  let timer: NodeJS.Timeout;
  const look = async () => {
    if ((await countProcesses(firstProcess)) > bounds.maxProcesses)
      return onExceeded(`it has more than ${bounds.maxProcesses} processes`);
    if ((await usedBytes(folder, ending.signal)) > bounds.maxDiskBytes)
      onExceeded(`the files of its sandbox take more than ${bounds.maxDiskBytes} bytes`);
  };
  const wait = (ms: number) => {
    timer = setTimeout(async () => {
      const startedAt = performance.now();
      // What ends while it is looked at is no error.
      await look().catch(() => undefined);
      // Many files take long to look at.
      if (!ending.signal.aborted) wait(Math.max(everyMs, 10 * (performance.now() - startedAt)));
    }, ms).unref();
  };
  wait(everyMs);
  return () => {
    ending.abort();
    clearTimeout(timer);
  };
}

/** The processes in the same namespace. */
async function countProcesses(firstProcess: number): Promise<number> {
  const namespace = await readlink(`/proc/${firstProcess}/ns/pid`);
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const others = await Promise.all(ids.map((id) => readlink(`/proc/${id}/ns/pid`).catch(() => '')));
  return others.filter((other) => other === namespace).length;
}

/**
 * What the files of a folder take, in bytes. Each counts 1 KiB more, as a disk holds only so many files, also empty ones.
 * The program `du` also finds what is deeper than a path can be long.
 */
async function usedBytes(folder: string, signal: AbortSignal): Promise<number> {
  // Errors, as for a file that went away meanwhile, come with the sum of the others. Only GNU's `du` counts files.
  const { stdout } = await run('sh', ['-c', 'du -sk "$0"; du -s --inodes "$0"', folder], { signal }).catch(
    (error) => error,
  );
  const sums = String(stdout ?? '').split('\n');
  return sumOf(sums, (line) => Number.parseInt(line, 10) || 0) * 1024;
}
