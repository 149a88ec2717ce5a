import { execFile } from 'node:child_process';
import { access, mkdir, readdir } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { promisify } from 'node:util';
import { HarborError } from '../../errors.ts';

/** Folders of the root that an agent may write, besides those that its task names. */
const writable = [
  ...['app', 'data', 'etc', 'home', 'logs', 'media', 'mnt', 'opt', 'root', 'run', 'srv', 'tmp', 'var'],
  'workspace',
];
/** What the root has of the machine or of the kernel. */
const reserved = new Set([
  'usr',
  'bin',
  'sbin',
  'lib',
  'lib32',
  'lib64',
  'libx32',
  'dev',
  'proc',
  'sys',
  'tests',
]);

/** What commands see in `/etc` of the machine, but for the folder of keys. */
const configuration = [
  ...['alternatives', 'group', 'hosts', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime'],
  ...['nsswitch.conf', 'passwd', 'resolv.conf', 'ssl'],
].map((name) => `/etc/${name}`);
const keys = '/etc/ssl/private';

/** What root may write without any capability. A program in `core_pattern` would run outside of the sandbox. */
const kernelSettings = ['acpi', 'bus', 'fs', 'irq', 'mtrr', 'scsi', 'sys', 'sysrq-trigger'].map(
  (name) => `/proc/${name}`,
);

const topOf = (path: string): string => posix.normalize(path).split('/')[1] ?? '';

/**
 * The files of a sandbox on the machine, and the mounts that show them. Each command gets a fresh root that nobody can
 * write, with the agent's folders in it. So no mount point is ever made inside what an agent can change: it could have
 * put a link there, and `bwrap` would make the mount point where that leads.
 */
export class SandboxFiles {
  readonly #root: string;
  readonly #tops: readonly string[];
  readonly #folders: readonly string[];
  /** Whether the machine has the folder of keys. */
  readonly #hasKeys: boolean;

  private constructor(root: string, tops: readonly string[], folders: readonly string[], hasKeys: boolean) {
    this.#root = root;
    this.#tops = tops;
    this.#folders = folders;
    this.#hasKeys = hasKeys;
  }

  /**
   * @param root A new folder.
   * @param paths Absolute paths in the sandbox that the task writes.
   * @param folders Folders of the machine that are shown too.
   * @throws HarborError (`sandbox_failed`) for a path where nothing can be written.
   */
  static async make(
    root: string,
    { workdir, paths, folders }: { workdir: string; paths: readonly string[]; folders: readonly string[] },
  ): Promise<SandboxFiles> {
    for (const path of [workdir, ...paths])
      if (reserved.has(topOf(path)))
        throw new HarborError(
          'sandbox_failed',
          `The task writes ${path}, but localSandbox() shows /${topOf(path)} of this machine, read-only. Use dockerSandbox().`,
        );
    const asked = [workdir, ...paths].map(topOf).filter((top) => top !== '');
    const shown = new Set(folders.filter((path) => posix.dirname(path) === '/').map(topOf));
    const tops = [...new Set([...writable, ...asked])].filter((top) => !shown.has(top));
    for (const top of tops) await mkdir(join(root, 'agent', top), { recursive: true });
    for (const path of ['logs/agent', 'logs/verifier', workdir])
      await mkdir(join(root, 'agent', path), { recursive: true });
    for (const folder of folders) {
      const child = childOf(folder);
      if (child !== null && tops.includes(topOf(folder)))
        await mkdir(join(root, 'agent', child), { recursive: true });
    }
    for (const path of ['tests', 'logs/agent', 'logs/verifier', 'home'])
      await mkdir(join(root, 'verifier', path), { recursive: true });
    await copyConfiguration(join(root, 'agent', 'etc'));
    return new SandboxFiles(root, tops, folders, await exists(keys));
  }

  /** What an agent has written is in here. */
  get agentFolder(): string {
    return join(this.#root, 'agent');
  }

  /** Options of `bwrap`. @param isTested The tests run: what they rest on is not what the agent could write. */
  mounts({ isTested }: { isTested: boolean }): string[] {
    const own = (who: 'agent' | 'verifier', path: string) => join(this.#root, who, path);
    const agents = this.#tops.filter((top) => !isTested || !['etc', 'logs'].includes(top));
    return [
      ...['--ro-bind', '/usr', '/usr'],
      ...['bin', 'sbin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`]),
      ...['--dev', '/dev', '--size', String(64 * 1024 * 1024), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'],
      ...['--proc', '/proc'],
      ...kernelSettings.flatMap((path) => ['--ro-bind-try', path, path]),
      ...agents.flatMap((top) => ['--bind', own('agent', top), `/${top}`]),
      ...(isTested
        ? [
            ...configuration.flatMap((path) => ['--ro-bind-try', path, path]),
            ...(this.#hasKeys ? ['--tmpfs', keys] : []),
            ...['--bind', own('verifier', 'logs'), '/logs', '--bind', own('verifier', 'tests'), '/tests'],
            ...['--bind', own('verifier', 'home'), '/verifier'],
          ]
        : []),
      ...this.#folders.flatMap((path) => this.#shown(path)),
      ...['--remount-ro', '/'],
    ];
  }

  /** A folder below one of the agent's begins with a mount point that was there before the agent. */
  #shown(path: string): string[] {
    const child = childOf(path);
    const bind = ['--ro-bind', path, path];
    if (child === null || path === `/${child}` || !this.#tops.includes(topOf(path))) return bind;
    return ['--tmpfs', `/${child}`, ...bind, '--remount-ro', `/${child}`];
  }
}

/** The first two parts of a path, such as `opt/tools` of `/opt/tools/bin`. Null if it has only one. */
function childOf(path: string): string | null {
  const [, top, child] = posix.normalize(path).split('/');
  return top && child ? `${top}/${child}` : null;
}

const run = promisify(execFile);

/** Hundreds of small files, for which the program `cp` takes a tenth of the time of Node's `cp`. */
async function copyConfiguration(folder: string): Promise<void> {
  const ssl = '/etc/ssl';
  const certificates = (await readdir(ssl).catch(() => [])).map((name) => join(ssl, name));
  const files = configuration.filter((path) => path !== ssl);
  await copy(files, folder);
  await copy(
    certificates.filter((path) => path !== keys),
    join(folder, 'ssl'),
  );
}

/** Copies files and folders, those that there are, into a folder. */
async function copy(paths: readonly string[], to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const found: string[] = [];
  for (const path of paths) if (await exists(path)) found.push(path);
  if (found.length > 0) await run('cp', ['-RH', '--', ...found, to]);
}

/** Whether there is something; a link may lead to nothing. */
const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
