import { mkdir, rm, symlink } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { hasCode } from '../../../../util/error.ts';
import { invalidOption, wholeNumberOption } from '../../../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../../../util/option-names.ts';
import { HarborError } from '../../errors.ts';
import { newFolder, sweep } from '../left-over.ts';
import { runProcess } from '../run-process.ts';
import type { BareSandbox, ExecOptions, ExecResult, SandboxKind, SandboxSettings } from '../sandbox.ts';
import { Slots } from '../slots.ts';

export interface LocalSandboxOptions {
  /** Sandboxes at the same time; further rollouts wait. Default 16. */
  maxSandboxes?: number;
  /** Folders of this machine that commands can read besides `/usr`, such as a toolchain in `/opt`. Default: none. */
  folders?: readonly string[];
}

const names = { maxSandboxes: true, folders: true } satisfies OptionNames<LocalSandboxOptions>;

/** What commands see of this machine besides its programs. They cannot write it. */
const configuration = [
  ...['alternatives', 'group', 'hosts', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime'],
  ...['nsswitch.conf', 'passwd', 'resolv.conf', 'ssl'],
].map((name) => `/etc/${name}`);

/**
 * Sandboxes of `bubblewrap` (`bwrap`) on this machine: the root folder is a temporary one, with the machine's own
 * programs in `/usr`. Linux only. What a command leaves in the background ends with the command.
 */
export function localSandbox(options: LocalSandboxOptions = {}): SandboxKind {
  checkOptionNames('localSandbox()', options, names);
  const { maxSandboxes = 16, folders = [] } = options;
  for (const folder of folders)
    if (!isAbsolute(folder))
      throw invalidOption('invalid_rollout_option', 'folders', folder, 'Pass absolute paths.');
  const slots = new Slots(wholeNumberOption('invalid_rollout_option', 'maxSandboxes', maxSandboxes, 1));
  let swept: Promise<void> | undefined;
  const make = async (settings: LocalSettings): Promise<BareSandbox> => {
    swept ??= sweep();
    await swept;
    await slots.take(settings.signal);
    return await LocalSandbox.create(settings, () => slots.giveBack()).catch((cause: unknown) => {
      slots.giveBack();
      throw new HarborError('sandbox_failed', `a sandbox could not be made: ${String(cause)}`, { cause });
    });
  };
  return {
    async check() {
      const signal = AbortSignal.timeout(30_000);
      const sandbox = await make({ workdir: '/', env: {}, hasNetwork: true, folders, signal });
      await sandbox.exec('true', { timeoutMs: 10_000, signal }).finally(() => sandbox.close());
    },
    create: (settings) => make({ ...settings, folders, workdir: settings.workdir ?? '/app' }),
  };
}

/** It has no image: the machine's programs are its own. */
type LocalSettings = Omit<SandboxSettings, 'image' | 'workdir'> & {
  workdir: string;
  folders: readonly string[];
};

class LocalSandbox implements BareSandbox {
  readonly #root: string;
  readonly #settings: LocalSettings;
  readonly #onClose: () => void;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;

  private constructor(root: string, settings: LocalSettings, onClose: () => void) {
    this.#root = root;
    this.#settings = settings;
    this.#onClose = onClose;
  }

  static async create(settings: LocalSettings, onClose: () => void): Promise<LocalSandbox> {
    const root = await newFolder();
    try {
      for (const folder of [settings.workdir, '/tests', '/logs/verifier', '/logs/agent', '/root', '/tmp'])
        await mkdir(join(root, folder), { recursive: true });
      for (const name of ['bin', 'sbin', 'lib', 'lib64']) await symlink(`usr/${name}`, join(root, name));
      return new LocalSandbox(root, settings, onClose);
    } catch (error) {
      await rm(root, { recursive: true, force: true });
      throw error;
    }
  }

  async exec(command: string, options: ExecOptions): Promise<ExecResult> {
    const { stdin, timeoutMs, maxBytes = 65_536, user = 'root' } = options;
    if (user !== 'root' && user !== '0')
      throw new HarborError('sandbox_failed', `localSandbox() has no user "${user}": it runs all as root`);
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    const args = [...this.#arguments(options), 'bash', '-c', command];
    const running = runProcess('bwrap', args, {
      ...(stdin ? { stdin } : {}),
      ...{ timeoutMs, maxBytes, signal },
    });
    const settled = running.then(
      () => undefined,
      () => undefined,
    );
    this.#running.add(settled);
    try {
      const { exitCode, isTimedOut, stdout, stderr, status, isCut } = await running;
      if (isTimedOut) return { exitCode: null, stdout, stderr, isCut };
      // `bwrap` says there what the command ended with, if it could be run.
      if (!status.includes('"exit-code"'))
        throw new HarborError('sandbox_failed', `the sandbox ended: ${stderr.toString().slice(0, 500)}`);
      return { exitCode, stdout, stderr, isCut };
    } catch (cause) {
      if (!hasCode(cause, 'ENOENT')) throw cause;
      throw new HarborError(
        'sandbox_away',
        'localSandbox() needs the program `bwrap`: install bubblewrap (`apt install bubblewrap`)',
        { cause },
      );
    } finally {
      this.#running.delete(settled);
    }
  }

  async expose(): Promise<string> {
    throw new HarborError(
      'sandbox_failed',
      'localSandbox() exposes no ports, as what a command leaves in the background ends with it: use dockerSandbox()',
    );
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#closing.abort(new HarborError('sandbox_failed', 'the sandbox is closed'));
    await Promise.all(this.#running);
    await rm(this.#root, { recursive: true, force: true }).finally(this.#onClose);
  }

  #arguments({ cwd, env }: ExecOptions): string[] {
    const { workdir, hasNetwork, folders } = this.#settings;
    const variables = {
      ...{
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        HOME: '/root',
        LANG: 'C.UTF-8',
      },
      ...this.#settings.env,
      ...env,
    };
    return [
      ...['--die-with-parent', '--new-session', '--unshare-pid', '--unshare-ipc', '--unshare-uts'],
      ...(hasNetwork ? [] : ['--unshare-net']),
      ...['--cap-drop', 'ALL', '--json-status-fd', '3', '--clearenv'],
      ...['--bind', this.#root, '/', '--ro-bind', '/usr', '/usr', '--dev', '/dev', '--proc', '/proc'],
      ...folders.flatMap((path) => ['--ro-bind', path, path]),
      ...configuration.flatMap((path) => ['--ro-bind-try', path, path]),
      ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
      ...['--chdir', cwd ?? workdir, '--'],
    ];
  }
}
