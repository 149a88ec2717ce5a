import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { untilAborted } from '../../../../util/deadline.ts';
import { wholeNumberOption } from '../../../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../../../util/option-names.ts';
import { HarborError } from '../../errors.ts';
import { hasEnded, thisProcess } from '../left-over.ts';
import { killMarked, newMark } from '../marked-command.ts';
import type {
  BareSandbox,
  ExecOptions,
  ExecResult,
  ExposeOptions,
  SandboxKind,
  SandboxSettings,
} from '../sandbox.ts';
import { Semaphore } from '../semaphore.ts';
import { dockerImages } from './images.ts';
import { exposePort } from './port.ts';
import { Docker, dockerMs } from './program.ts';

export interface DockerSandboxOptions {
  /** The program that makes containers. Default `docker`; `podman` has the same commands. */
  program?: string;
  /** Sandboxes at the same time; further rollouts wait. Default 16. */
  maxSandboxes?: number;
}

const names = { program: true, maxSandboxes: true } satisfies OptionNames<DockerSandboxOptions>;

/**
 * Sandboxes of Docker: each rollout has a container of the task's image, with the task's limits. Images are built when a
 * task is first run, and kept under a hash of what they are built from.
 */
export function dockerSandbox(options: DockerSandboxOptions = {}): SandboxKind {
  checkOptionNames('dockerSandbox()', options, names);
  const { program = 'docker', maxSandboxes = 16 } = options;
  const slots = new Semaphore(wholeNumberOption('invalid_rollout_option', 'maxSandboxes', maxSandboxes, 1));
  const docker = new Docker(program);
  const images = dockerImages(docker);
  let swept: Promise<void> | undefined;
  return {
    buildsImages: true,
    async check() {
      const signal = AbortSignal.timeout(30_000);
      const { exitCode, stderr } = await docker.run(['version'], { timeoutMs: 20_000, signal });
      if (exitCode !== 0) throw docker.away(stderr.toString());
    },
    async create(settings) {
      swept ??= sweep(docker).catch((error: unknown) => {
        swept = undefined;
        throw error;
      });
      await untilAborted(swept, settings.signal);
      const image = await images.get(settings.image, settings.signal);
      await slots.take(settings.signal);
      try {
        return await DockerSandbox.create(docker, image, settings, () => slots.giveBack());
      } catch (error) {
        slots.giveBack();
        throw error;
      }
    },
  };
}

/** Names of containers: this prefix for the machine, a part for the process, and a random part. */
const prefix = `martingale-${hostname().replaceAll(/[^A-Za-z0-9]/g, '')}-`;

/** Removes the containers of processes that have ended without doing so, such as killed ones. */
async function sweep(docker: Docker): Promise<void> {
  const signal = AbortSignal.timeout(dockerMs);
  const list = await docker.must(['ps', '--all', '--filter', `name=${prefix}`, '--format', '{{.Names}}'], {
    signal,
  });
  for (const name of list.split('\n').filter((one) => one.startsWith(prefix)))
    if (await hasEnded(name.slice(prefix.length))) await remove(docker, name, signal);
}

/** @throws HarborError (`sandbox_failed`) */
async function remove(docker: Docker, name: string, signal: AbortSignal): Promise<void> {
  // `podman rm` alone would first wait for the container to end by itself.
  await docker.run(['kill', name], { signal });
  await docker.must(['rm', '--force', '--volumes', name], { signal });
}

/** What the program itself reads. */
const programVariables =
  /^(PATH|HOME|USER|TMPDIR|LANG|(LC|LD|XDG|DOCKER|CONTAINERS?|BUILDAH|STORAGE|SSL|GO[A-Z]*)_.*|.*_proxy)$/i;

/**
 * Variables for a command in a container. The program takes their values from its own environment, because every user
 * of the machine can read its arguments. Only variables that would change the program itself become arguments.
 */
function variablesOf(env: Readonly<Record<string, string>>): { args: string[]; env: NodeJS.ProcessEnv } {
  const entries = Object.entries(env);
  const hidden = entries.filter(([name]) => !programVariables.test(name));
  return {
    args: entries.flatMap(([name, value]) => [
      '--env',
      programVariables.test(name) ? `${name}=${value}` : name,
    ]),
    env: { ...process.env, ...Object.fromEntries(hidden) },
  };
}

class DockerSandbox implements BareSandbox {
  readonly #docker: Docker;
  readonly #name: string;
  readonly #onClose: () => void;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  private constructor(docker: Docker, name: string, onClose: () => void) {
    this.#docker = docker;
    this.#name = name;
    this.#onClose = onClose;
  }

  /** @throws HarborError; the signal's reason */
  static async create(
    docker: Docker,
    image: string,
    { workdir, env, hasNetwork, image: { cpus, memoryMb }, signal }: SandboxSettings,
    onClose: () => void,
  ): Promise<DockerSandbox> {
    const name = `${prefix}${await thisProcess()}-${randomUUID()}`;
    const sandbox = new DockerSandbox(docker, name, onClose);
    const given = variablesOf(env);
    try {
      await docker.must(
        [
          ...['run', '--detach', '--name', name],
          ...(hasNetwork ? [] : ['--network', 'none']),
          ...(cpus === null ? [] : ['--cpus', String(cpus)]),
          ...(memoryMb === null ? [] : ['--memory', `${memoryMb}m`]),
          ...(workdir === null ? [] : ['--workdir', workdir]),
          ...given.args,
          ...['--entrypoint', 'sleep', image, 'infinity'],
        ],
        { env: given.env, signal },
      );
      const options = { timeoutMs: dockerMs, signal, cwd: '/' };
      const { exitCode, stderr } = await sandbox.exec('mkdir -p /logs/agent /logs/verifier /tests', options);
      if (exitCode === 0) return sandbox;
      throw new HarborError('sandbox_failed', `${image} has no bash, or is not writable: ${stderr}`);
    } catch (error) {
      await remove(docker, name, AbortSignal.timeout(dockerMs)).catch(() => undefined);
      throw error;
    }
  }

  async exec(command: string, options: ExecOptions): Promise<ExecResult> {
    const { cwd, env = {}, user, stdin, timeoutMs, maxBytes = 65_536 } = options;
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    const mark = newMark();
    const given = variablesOf(env);
    const args = [
      ...['exec', '--interactive', '--env', mark],
      ...(cwd === undefined ? [] : ['--workdir', cwd]),
      ...(user === undefined ? [] : ['--user', user]),
      ...given.args,
      ...[this.#name, 'bash', '-c', command],
    ];
    const settings = { ...(stdin ? { stdin } : {}), env: given.env, timeoutMs, maxBytes, signal };
    const { exitCode, isTimedOut, stdout, stderr, isCut } = await this.#docker
      .run(args, settings)
      .catch(async (error: unknown) => {
        // A container that closes takes its commands along.
        if (signal.aborted && !this.#closing.signal.aborted) await this.#kill(mark).catch(() => undefined);
        throw error;
      });
    if (isTimedOut) {
      await this.#kill(mark);
      return { exitCode: null, stdout, stderr, isCut };
    }
    if (exitCode !== 0 && !(await this.#isRunning()))
      throw new HarborError('sandbox_failed', `The container ended: ${stderr.toString().slice(0, 500)}`);
    return { exitCode, stdout, stderr, isCut };
  }

  expose(port: number, options: ExposeOptions): Promise<string> {
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    const args = (command: string) => ['exec', '--interactive', this.#name, 'bash', '-c', command];
    return exposePort(port, (command) => this.#docker.start(args(command)), signal);
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#closing.abort(new HarborError('sandbox_failed', 'The sandbox is closed.'));
    const signal = AbortSignal.timeout(dockerMs);
    try {
      await remove(this.#docker, this.#name, signal);
    } finally {
      this.#onClose();
    }
  }

  /** The command's client has ended, but not the command. */
  async #kill(mark: string): Promise<void> {
    const args = ['exec', '--user', '0', '--env', `MARK=${mark}`, this.#name, 'bash', '-c', killMarked];
    await this.#docker.run(args, { timeoutMs: 20_000, signal: this.#closing.signal });
  }

  async #isRunning(): Promise<boolean> {
    const args = ['inspect', '--format', '{{.State.Running}}', this.#name];
    const { stdout } = await this.#docker.run(args, { signal: this.#closing.signal });
    return stdout.toString().trim() === 'true';
  }
}
