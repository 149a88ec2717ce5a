import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandHandle, Sandbox as E2bHandle } from 'e2b';
import { Deadline, untilAborted } from '../../../../util/deadline.ts';
import { messageOf } from '../../../../util/error.ts';
import { HarborError } from '../../errors.ts';
import { killMarked, newMark } from '../marked-command.ts';
import type { BareSandbox, ExecOptions, ExecResult } from '../sandbox.ts';
import { quoted, resultOf, script } from './script.ts';

/** A sandbox that is silent for so long ends by itself, for example after the harness was killed. In milliseconds. */
export const lifeMs = 300_000;

/** Longest time of a request, in milliseconds. */
export const requestMs = 120_000;

/** How long the output of a killed command may take to arrive, in milliseconds. */
const flushMs = 5000;

/** A sandbox of E2B that is open. */
export class E2bSandbox implements BareSandbox {
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
      throw new HarborError('sandbox_failed', `The folders of a sandbox could not be made: ${stderr}`);
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
      if (!deadline.signal.aborted) throw failed('A command could not be run', cause, signal);
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
    const why = new HarborError('sandbox_failed', 'The sandbox is closed.');
    this.#closing.abort(why);
    try {
      await this.#handle.kill();
    } catch (cause) {
      throw failed('A sandbox could not be ended', cause);
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

/** The reason of the signal if it has aborted, because that made the call fail. Otherwise the error of the call. */
export function failed(what: string, cause: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) return signal.reason;
  if (HarborError.isInstance(cause)) return cause;
  return new HarborError('sandbox_failed', `${what}: ${messageOf(cause).slice(0, 500)}`, { cause });
}
