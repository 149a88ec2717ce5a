import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const programs = [
  ...['bash', 'basename', 'cat', 'chmod', 'cp', 'dirname', 'env', 'id', 'ls', 'mkdir', 'pwd', 'rm', 'seq'],
  ...['base64', 'head', 'redis-server', 'sed', 'setsid', 'sleep', 'tar', 'touch', 'tr'],
];

const pathOf = (program: string): string =>
  ['/usr/bin', '/bin'].map((folder) => join(folder, program)).find((path) => existsSync(path)) ?? '';

const librariesOf = (program: string): string[] =>
  spawnSync('ldd', [program]).stdout?.toString().match(/\/\S+/g) ?? [];

/** Whether this machine can run containers without a service: it has podman, runc, and redis-server for them, and is root. */
const canRun =
  ['/usr/bin/podman', '/usr/sbin/runc', '/usr/bin/redis-server'].every(existsSync) &&
  process.getuid?.() === 0;

export interface Podman {
  /** A program with the commands of `docker`, and an image `localhost/small` with bash and little else. */
  program: string;
  run(...args: string[]): string;
  close(): Promise<void>;
}

/** A store of images and containers of its own; undefined on a machine that runs no containers. */
export async function startPodman(): Promise<Podman | undefined> {
  if (!canRun) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'martingale-podman-'));
  const close = () => rm(folder, { recursive: true, force: true });
  const program = join(folder, 'docker');
  const settings = join(folder, 'containers.conf');
  await writeFile(
    settings,
    '[containers]\ndefault_ulimits = ["nofile=1024:4096","nproc=1024:4096"]\nnetns = "none"\n',
  );
  const flags = `--root ${folder}/store --runroot ${folder}/run --storage-driver=vfs --cgroup-manager=cgroupfs --runtime runc`;
  await writeFile(
    program,
    `#!/bin/sh\nexport CONTAINERS_CONF=${settings} BUILDAH_ISOLATION=chroot\nexec podman ${flags} "$@"\n`,
    { mode: 0o755 },
  );
  const root = join(folder, 'root');
  for (const name of ['bin', 'etc', 'root', 'tmp', 'usr']) await mkdir(join(root, name), { recursive: true });
  await chmod(join(root, 'tmp'), 0o1777);
  await writeFile(
    join(root, 'etc/passwd'),
    'root:x:0:0::/root:/bin/bash\nguest:x:1000:1000::/tmp:/bin/bash\n',
  );
  await symlink('bash', join(root, 'bin/sh'));
  for (const path of programs.map(pathOf)) {
    await copyFile(path, join(root, 'bin', path.slice(path.lastIndexOf('/') + 1)));
    for (const library of librariesOf(path)) {
      await mkdir(join(root, dirname(library)), { recursive: true });
      await copyFile(library, join(root, library));
    }
  }
  const run = (...args: string[]) => execFileSync(program, args, { stdio: 'pipe' }).toString();
  try {
    execFileSync('tar', ['-C', root, '-cf', join(folder, 'small.tar'), '.']);
    run('import', join(folder, 'small.tar'), 'localhost/small');
    run('run', '--rm', 'localhost/small', '/bin/bash', '-c', 'true');
    return { program, run, close };
  } catch (error) {
    await close();
    console.warn(`no containers here, so dockerSandbox() is not tested: ${String(error)}`);
    return undefined;
  }
}
