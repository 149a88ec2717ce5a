import { lstat, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/** What one sandbox may use. */
export interface SandboxBounds {
  /** Processes at the same time. */
  maxProcesses: number;
  /** Bytes of all its files. */
  maxDiskBytes: number;
}

const everyMs = 500;

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
  let isEnded = false;
  let timer: NodeJS.Timeout;
  const look = async () => {
    if ((await countProcesses(firstProcess)) > bounds.maxProcesses)
      return onExceeded(`it has more than ${bounds.maxProcesses} processes`);
    if (await isLarger(folder, bounds.maxDiskBytes, () => isEnded))
      onExceeded(`the files of its sandbox take more than ${bounds.maxDiskBytes} bytes`);
  };
  const wait = (ms: number) => {
    timer = setTimeout(async () => {
      const startedAt = performance.now();
      // What ends while it is looked at is no error.
      await look().catch(() => undefined);
      // Many files take long to look at.
      if (!isEnded) wait(Math.max(everyMs, 10 * (performance.now() - startedAt)));
    }, ms).unref();
  };
  wait(everyMs);
  return () => {
    isEnded = true;
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

/** Whether the files of a folder take more bytes of the disk than these. It follows no links. */
async function isLarger(folder: string, bytes: number, isEnded: () => boolean): Promise<boolean> {
  let left = bytes;
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined && !isEnded(); next = folders.pop()) {
    const at = next;
    for (const entry of await readdir(at, { withFileTypes: true }).catch(() => []))
      if (entry.isDirectory()) folders.push(join(at, entry.name));
      else if (entry.isFile()) {
        const found = await lstat(join(at, entry.name)).catch(() => null);
        left -= (found?.blocks ?? 0) * 512;
        if (left < 0) return true;
      }
  }
  return false;
}
