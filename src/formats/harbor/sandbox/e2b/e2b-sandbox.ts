import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandHandle, Sandbox as E2bHandle } from 'e2b';
import { Deadline, untilAborted } from '../../../../util/deadline.ts';
import { wholeNumberOption } from '../../../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../../../util/option-names.ts';
import { HarborError } from '../../errors.ts';
import { killMarked, newMark } from '../marked-command.ts';
import type { BareSandbox, ExecOptions, ExecResult, SandboxKind } from '../sandbox.ts';
import { Slots } from '../slots.ts';
import { quoted, resultOf, script } from './script.ts';
import { e2bTemplates } from './templates.ts';

export interface E2bSandboxOptions {
  /** Key of E2B. Default: the environment variable `E2B_API_KEY`. */
  apiKey?: string;
  /** Domain of a service of one's own. Default: the environment variable `E2B_DOMAIN`, or that of E2B. */
  domain?: string;
  /** Sandboxes at the same time; further rollouts wait. Default 16. An account of E2B has a limit of its own. */
  maxSandboxes?: number;
}

const names = { apiKey: true, domain: true, maxSandboxes: true } satisfies OptionNames<E2bSandboxOptions>;

/** A sandbox of which nothing is heard for so long ends by itself, such as one of a killed harness, in milliseconds. */
const lifeMs = 300_000;

/** Longest time of a request, in milliseconds. */
const requestMs = 120_000;

/** How long a command that was killed may take until what it has written is here, in milliseconds. */
const flushMs = 5000;

/**
 * Sandboxes of E2B (https://e2b.dev), by its package `e2b`, which is to be installed: each rollout has one, of a template
 * made of the task's image or Dockerfile.
 */
export function e2bSandbox(options: E2bSandboxOptions = {}): SandboxKind {
  checkOptionNames('e2bSandbox()', options, names);
  const { maxSandboxes = 16, ...account } = options;
  const connection = { ...account, requestTimeoutMs: requestMs };
  const slots = new Slots(wholeNumberOption('invalid_rollout_option', 'maxSandboxes', maxSandboxes, 1));
  const open = async () => {
    const { Sandbox, Template } = await loadE2b();
    return { Sandbox, templates: e2bTemplates(Template, connection) };
  };
  let opened: ReturnType<typeof open> | undefined;
  return {
    buildsImages: true,
    async check() {
      const { Sandbox } = await loadE2b();
      await Sandbox.list({ ...connection, limit: 1 })
        .nextItems()
        .catch((cause: unknown) => {
          throw new HarborError('sandbox_away', `e2bSandbox() cannot use E2B: ${messageOf(cause)}`, {
            cause,
          });
        });
    },
    async create({ image, env, hasNetwork, workdir, signal }) {
      opened ??= open();
      const { Sandbox, templates } = await opened;
      const template = await templates.get(image, signal);
      await slots.take(signal);
      const handle = await Sandbox.create(template, {
        ...connection,
        ...{ envs: { ...env }, timeoutMs: lifeMs, allowInternetAccess: hasNetwork, signal },
      }).catch((cause: unknown) => {
        slots.giveBack();
        throw failed(`a sandbox of ${template} could not be made`, cause, signal);
      });
      return await E2bSandbox.open(handle, workdir, signal, () => slots.giveBack());
    },
  };
}

/** @throws HarborError (`sandbox_away`) */
async function loadE2b() {
  return import('e2b').catch((cause: unknown) => {
    const message = 'e2bSandbox() needs the package "e2b": npm install e2b';
    throw new HarborError('sandbox_away', message, { cause });
  });
}

class E2bSandbox implements BareSandbox {
  readonly #handle: E2bHandle;
  readonly #workdir: string | null;
  readonly #onClose: () => void;
  readonly #closing = new AbortController();
  readonly #keepAlive: NodeJS.Timeout;
  #closed: Promise<void> | undefined;

  private constructor(handle: E2bHandle, workdir: string | null, onClose: () => void) {
    this.#handle = handle;
    this.#workdir = workdir;
    this.#onClose = onClose;
    // If this fails for good, commands will fail.
    const live = () => void handle.setTimeout(lifeMs).catch(() => undefined);
    this.#keepAlive = setInterval(live, lifeMs / 5).unref();
  }

  /** @throws what a command throws, or HarborError (`sandbox_failed`) */
  static async open(
    handle: E2bHandle,
    workdir: string | null,
    signal: AbortSignal,
    onClose: () => void,
  ): Promise<E2bSandbox> {
    const sandbox = new E2bSandbox(handle, workdir, onClose);
    const folders = ['/logs/agent', '/logs/verifier', '/tests', workdir ?? '/tmp'].map(quoted).join(' ');
    const options = { cwd: '/', user: 'root', timeoutMs: requestMs, signal };
    try {
      const { exitCode, stderr } = await sandbox.exec(`mkdir -p ${folders}`, options);
      if (exitCode === 0) return sandbox;
      throw new HarborError('sandbox_failed', `its folders could not be made: ${stderr}`);
    } catch (error) {
      await sandbox.close().catch(() => undefined);
      throw error;
    }
  }

  async exec(command: string, options: ExecOptions): Promise<ExecResult> {
    const { timeoutMs, maxBytes = 65_536 } = options;
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    const deadline = new Deadline(timeoutMs, signal);
    const mark = newMark();
    const starting = this.#start(command, mark, { ...options, maxBytes, signal });
    const ended = starting.then(untilEnded);
    // It may fail after nobody waits for it any more.
    ended.catch(() => undefined);
    try {
      const exitCode = await untilAborted(ended, deadline.signal);
      return resultOf(await starting, exitCode, maxBytes);
    } catch (cause) {
      if (!deadline.signal.aborted) throw failed('a command could not be run', cause, signal);
      if (!this.#closing.signal.aborted) await this.#kill(mark).catch(() => undefined);
      signal.throwIfAborted();
      const running = await Promise.race([ended.then(() => starting), sleep(flushMs, null)]).catch(
        () => null,
      );
      return resultOf(running ?? {}, null, maxBytes);
    } finally {
      deadline.clear();
    }
  }

  async expose(port: number): Promise<string> {
    return `https://${this.#handle.getHost(port)}`;
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #start(
    command: string,
    mark: string,
    { cwd = this.#workdir ?? undefined, env = {}, user, stdin, maxBytes, signal }: StartOptions,
  ): Promise<CommandHandle> {
    const as = user === undefined ? {} : { user };
    let input = '/dev/null';
    if (stdin) {
      input = `/tmp/.martingale-${randomUUID()}`;
      await this.#handle.files.write(input, new Blob([new Uint8Array(stdin)]), { ...as, signal });
    }
    return await this.#handle.commands.run(script(command, { mark, input, maxBytes }), {
      ...as,
      ...(cwd === undefined ? {} : { cwd }),
      // A deadline of the service would end the command, but not what it has started.
      ...{ background: true, envs: { ...env }, timeoutMs: 0, signal },
    });
  }

  async #end(): Promise<void> {
    clearInterval(this.#keepAlive);
    const why = new HarborError('sandbox_failed', 'the sandbox is closed');
    this.#closing.abort(why);
    try {
      await this.#handle.kill();
    } catch (cause) {
      throw failed('a sandbox could not be ended', cause);
    } finally {
      this.#onClose();
    }
  }

  async #kill(mark: string): Promise<void> {
    const envs = { MARK: mark };
    await this.#handle.commands.run(killMarked, { user: 'root', cwd: '/', envs, timeoutMs: 20_000 });
  }
}

interface StartOptions extends Omit<ExecOptions, 'timeoutMs'> {
  maxBytes: number;
}

/** @returns The exit code. */
async function untilEnded(running: CommandHandle): Promise<number> {
  const failure = await running.wait().catch((error: unknown) => error);
  if (running.exitCode === undefined) throw failure;
  return running.exitCode;
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** The signal's reason if that has aborted, as what failed then failed by it. */
function failed(what: string, cause: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) return signal.reason;
  if (HarborError.isInstance(cause)) return cause;
  return new HarborError('sandbox_failed', `${what}: ${messageOf(cause).slice(0, 500)}`, { cause });
}
