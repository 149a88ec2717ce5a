import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

const namespace = ['--user', '--map-root-user', '--mount'];
const script = 'mount -t tmpfs -o size=3m tmpfs "$0" && echo mounted && exec sleep 600';

/** A file system of 3 MiB, and how to run a program that sees it; null if the machine does not allow that. */
export async function smallDisk() {
  if (process.platform !== 'linux' || spawnSync('nsenter', ['--version']).status !== 0) return null;
  const place = mkdtempSync(join(tmpdir(), 'martingale-disk-'));
  const keeper = spawn('unshare', [...namespace, 'sh', '-c', script, place], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => {
    keeper.kill('SIGKILL');
    rmSync(place, { recursive: true, force: true });
  });
  const mounted = once(keeper.stdout, 'data').then(() => true);
  const failed = Promise.race([once(keeper, 'exit'), once(keeper, 'error')]).then(() => false);
  if (!(await Promise.race([mounted, failed])) || keeper.pid === undefined) return null;
  const target = ['--preserve-credentials', '--user', '--mount', '--target', String(keeper.pid)];
  /** Path of its files from outside. */
  const seen = (path: string) => join(`/proc/${keeper.pid}/root`, path);
  const filler = seen(join(place, 'filler'));
  const under: [string, ...string[]] = ['nsenter', ...target];
  return {
    ...{ under, place, seen },
    /** Fills it to the last byte. */
    fill: () => {
      for (let size = 65_536; size > 0; )
        try {
          appendFileSync(filler, Buffer.alloc(size, 1));
        } catch {
          size = Math.floor(size / 2);
        }
    },
    free: () => rmSync(filler, { force: true }),
    /** Sets new mount options, such as `ro` or `size=64m`. */
    remount: (options: string) =>
      spawnSync('nsenter', [...target, 'mount', '-o', `remount,${options}`, place]).status,
  };
}
