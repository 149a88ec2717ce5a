import { isAbsolute, posix } from 'node:path';
import { hasCode } from '../../../../util/error.ts';
import { invalidOption, wholeNumberOption } from '../../../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../../../util/option-names.ts';
import { HarborError } from '../../errors.ts';
import { newFolder, removeFolder, sweep } from '../left-over.ts';
import { runProcess } from '../run-process.ts';
import type { BareSandbox, ExecOptions, ExecResult, SandboxKind, SandboxSettings } from '../sandbox.ts';
import { Semaphore } from '../semaphore.ts';
import { SandboxFiles } from './sandbox-files.ts';
import { type SandboxBounds, watch } from './watch.ts';

export interface LocalSandboxOptions {
  /** Sandboxes at the same time; further rollouts wait. Default 16. */
  maxSandboxes?: number;
  /** Folders of this machine that commands can read besides `/usr`, such as a toolchain in `/opt`. Default: none. */
  folders?: readonly string[];
  /** Processes of a sandbox at the same time; a command with more is killed. Default 1,024. */
  maxProcesses?: number;
  /**
   * MiB that the files of a sandbox may take, with 1 KiB more for each file; a command that needs more is killed. A
   * task's `storage_mb` counts if it is smaller. Default 10,240.
   */
  maxDiskMb?: number;
}

const names = {
  ...{ maxSandboxes: true, folders: true, maxProcesses: true, maxDiskMb: true },
} satisfies OptionNames<LocalSandboxOptions>;

/**
 * Sandboxes of `bubblewrap` (`bwrap`) on this machine: the root folder is a temporary one, with the machine's own
 * programs in `/usr`. Linux only. What a command leaves in the background ends with the command.
 */
export function localSandbox(options: LocalSandboxOptions = {}): SandboxKind {
  checkOptionNames('localSandbox()', options, names);
  const { maxSandboxes = 16, folders = [], maxProcesses = 1024, maxDiskMb = 10_240 } = options;
  for (const folder of folders)
    if (!isAbsolute(folder) || posix.normalize(folder) === '/')
      throw invalidOption('invalid_rollout_option', 'folders', folder, 'Pass absolute paths below `/`.');
  const whole = (name: string, value: number) => wholeNumberOption('invalid_rollout_option', name, value, 1);
  const slots = new Semaphore(whole('maxSandboxes', maxSandboxes));
  whole('maxProcesses', maxProcesses);
  whole('maxDiskMb', maxDiskMb);
  let swept: Promise<void> | undefined;
  const make = async (settings: SandboxSettings): Promise<BareSandbox> => {
    swept ??= sweep();
    await swept;
    await slots.take(settings.signal);
    const { storageMb } = settings.image;
    const maxDiskBytes = Math.min(maxDiskMb, storageMb ?? maxDiskMb) * 1024 * 1024;
    const ours = { ...settings, folders, bounds: { maxProcesses, maxDiskBytes } };
    return await LocalSandbox.create(ours, () => slots.giveBack()).catch((cause: unknown) => {
      slots.giveBack();
      if (HarborError.isInstance(cause)) throw cause;
      throw new HarborError('sandbox_failed', `A sandbox could not be made: ${String(cause)}`, { cause });
    });
  };
  return {
    async check() {
      const signal = AbortSignal.timeout(30_000);
      const sandbox = await make({
        workdir: null,
        copies: [],
        env: {},
        hasNetwork: true,
        image: anyImage,
        signal,
      });
      await sandbox.exec('true', { timeoutMs: 10_000, signal }).finally(() => sandbox.close());
    },
    create: make,
  };
}

/** There are no images: the machine's programs are a sandbox's own. */
const anyImage = { name: null, folder: '', buildTimeoutMs: 0, cpus: null, memoryMb: null, storageMb: null };

type LocalSettings = SandboxSettings & { folders: readonly string[]; bounds: SandboxBounds };

/** The variable that brings a command into the sandbox: arguments can be read by every user of the machine. */
const scriptVariable = 'MARTINGALE_SCRIPT';

class LocalSandbox implements BareSandbox {
  readonly #root: string;
  readonly #files: SandboxFiles;
  readonly #settings: LocalSettings;
  readonly #onClose: () => void;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #isTested = false;
  #closed: Promise<void> | undefined;

  private constructor(root: string, files: SandboxFiles, settings: LocalSettings, onClose: () => void) {
    this.#root = root;
    this.#files = files;
    this.#settings = settings;
    this.#onClose = onClose;
  }

  static async create(settings: LocalSettings, onClose: () => void): Promise<LocalSandbox> {
    const root = await newFolder();
    const { copies, folders } = settings;
    const workdir = settings.workdir ?? defaultWorkdir;
    try {
      const files = await SandboxFiles.make(root, { workdir, paths: copies, folders });
      return new LocalSandbox(root, files, settings, onClose);
    } catch (error) {
      await removeFolder(root);
      throw withRemedy(error);
    }
  }

  async exec(command: string, options: ExecOptions): Promise<ExecResult> {
    const { user = 'root' } = options;
    if (user !== 'root' && user !== '0')
      throw new HarborError('sandbox_failed', `localSandbox() has no user "${user}": it runs all as root.`);
    const running = this.#run(command, options);
    const settled = running.then(
      () => undefined,
      () => undefined,
    );
    this.#running.add(settled);
    try {
      return await running;
    } catch (error) {
      throw withRemedy(error);
    } finally {
      this.#running.delete(settled);
    }
  }

  async #run(command: string, options: ExecOptions): Promise<ExecResult> {
    const { stdin, timeoutMs, maxBytes = 65_536 } = options;
    const { bounds } = this.#settings;
    const exceeded = new AbortController();
    let endWatch = () => {};
    const running = runProcess('bwrap', ['--args', '4', 'bash', '-c', this.#script], {
      ...(stdin ? { stdin } : {}),
      // Its first process stays in the sandbox, where its variables can be read.
      env: { PATH: process.env.PATH },
      settings: Buffer.from(this.#options(command, options).join('\0')),
      onStatus: (text) => {
        const pid = Number(/"child-pid": *(\d+)/.exec(text)?.[1]);
        if (pid > 0)
          endWatch = watch(pid, {
            folder: this.#files.agentFolder,
            bounds,
            onExceeded: (what) => exceeded.abort(new BoundExceeded(what)),
          });
      },
      ...{ timeoutMs, maxBytes },
      signal: AbortSignal.any([options.signal, this.#closing.signal, exceeded.signal]),
    });
    try {
      const { exitCode, isTimedOut, stdout, stderr, status, isCut } = await running;
      if (isTimedOut) return { exitCode: null, stdout, stderr, isCut };
      // `bwrap` says there what the command ended with, if it could be run.
      if (!status.includes('"exit-code"'))
        throw new HarborError('sandbox_failed', `The sandbox ended: ${stderr.toString().slice(0, 500)}`);
      return { exitCode, stdout, stderr, isCut };
    } catch (error) {
      if (!(error instanceof BoundExceeded)) throw error;
      const stderr = Buffer.from(`[killed: ${error.message}]\n`);
      return { exitCode: 137, stdout: Buffer.alloc(0), stderr, isCut: true };
    } finally {
      endWatch();
    }
  }

  async expose(): Promise<string> {
    throw new HarborError(
      'sandbox_failed',
      'localSandbox() exposes no ports, as what a command leaves in the background ends with it. Use dockerSandbox().',
    );
  }

  endAgent(): void {
    this.#isTested = true;
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#closing.abort(new HarborError('sandbox_failed', 'The sandbox is closed.'));
    await Promise.all(this.#running);
    await removeFolder(this.#root).finally(this.#onClose);
  }

  /** Linux holds users other than root to the number of processes, and everybody to the size of a file. */
  get #script(): string {
    const { maxProcesses, maxDiskBytes } = this.#settings.bounds;
    const limits = `ulimit -c 0; ulimit -u ${maxProcesses}; ulimit -f ${Math.ceil(maxDiskBytes / 1024)}`;
    return `{ ${limits}; } 2>/dev/null; MARTINGALE_COMMAND=$${scriptVariable}; unset ${scriptVariable}; eval "$MARTINGALE_COMMAND"`;
  }

  #options(command: string, { cwd, env }: ExecOptions): string[] {
    const { workdir, hasNetwork } = this.#settings;
    const variables = {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: this.#isTested ? '/verifier' : '/root',
      LANG: 'C.UTF-8',
      ...this.#settings.env,
      ...env,
      [scriptVariable]: command,
    };
    return [
      ...['--die-with-parent', '--new-session', '--unshare-pid', '--unshare-ipc', '--unshare-uts'],
      ...(hasNetwork ? [] : ['--unshare-net']),
      ...['--cap-drop', 'ALL', '--json-status-fd', '3', '--clearenv'],
      ...this.#files.mounts({ isTested: this.#isTested }),
      ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
      ...['--chdir', cwd ?? workdir ?? defaultWorkdir],
    ];
  }
}

const defaultWorkdir = '/app';

/** The error of a program that the machine does not have says what to install. */
function withRemedy(cause: unknown): unknown {
  if (!hasCode(cause, 'ENOENT')) return cause;
  return new HarborError(
    'sandbox_away',
    'localSandbox() needs the programs `bwrap` and `cp`. Install bubblewrap (`apt install bubblewrap`).',
    { cause },
  );
}

class BoundExceeded extends Error {}
