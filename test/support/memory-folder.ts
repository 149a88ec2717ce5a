import { mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

const memory = '/dev/shm';
const prefix = 'martingale-tests-';
/** What all tests at once may take. */
const neededBytes = 8 * 2 ** 30;

/**
 * A folder in memory for the temporary files of the tests, deleted at the end of this process. Null where there is none
 * with room and programs that run. A killed process loses nothing of what it wrote there, as on a disk, and thousands of
 * small files that are synced take a small part of the time.
 */
export function memoryFolder(): string | null {
  try {
    const mounted = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .find((line) => line.split(' ')[1] === memory);
    const { bavail, bsize } = statfsSync(memory);
    if (mounted === undefined || /\bnoexec\b/.test(mounted) || bavail * bsize < neededBytes) return null;
    // What killed tests have left.
    for (const name of readdirSync(memory))
      if (name.startsWith(prefix) && !isRunning(Number(name.slice(prefix.length)))) remove(name);
    const own = `${prefix}${process.pid}`;
    mkdirSync(join(memory, own), { recursive: true });
    process.once('exit', () => remove(own));
    return join(memory, own);
  } catch {
    return null;
  }
}

const remove = (name: string) => rmSync(join(memory, name), { recursive: true, force: true });

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
