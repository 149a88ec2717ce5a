import { chmod, lstat, mkdir, readFile, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { privateFolder, writeAtomically } from '../../util/durable-files.ts';
import { isLoopback } from '../../util/server-access.ts';

const folder = () =>
  join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'martingale', 'worker-keys');

/** Path of the key of a program on this machine; null for the address of another. */
function pathOf(url: string): string | null {
  const { hostname, port } = new URL(url);
  return isLoopback(hostname) ? join(folder(), `${port}.key`) : null;
}

/**
 * Keeps the key of a program's `leases()` where workers of the same user find it, so that none has to be passed on one
 * machine. Returns what removes it. Without a home folder to write to, workers must be given the key.
 */
export async function keepKey(url: string, key: string): Promise<() => Promise<void>> {
  const path = pathOf(url);
  const nothing = async () => {};
  if (path === null) return nothing;
  try {
    await mkdir(folder(), { recursive: true, mode: privateFolder });
    await chmod(folder(), privateFolder);
    await writeAtomically(path, [key], `${path}.${process.pid}`);
  } catch {
    return nothing;
  }
  return async () => {
    if ((await findKey(url)) === key) await rm(path, { force: true });
  };
}

/** The key of a program of this user on this machine. */
export async function findKey(url: string): Promise<string | undefined> {
  const path = pathOf(url);
  if (path === null) return undefined;
  try {
    const found = await lstat(path);
    // Nobody else may have put it there.
    const isOurs = found.isFile() && found.uid === process.getuid?.() && (found.mode & 0o077) === 0;
    return isOurs ? await readFile(path, 'utf8') : undefined;
  } catch {
    return undefined;
  }
}
