import { startTimeoutMs } from '../../../util/task-thread.ts';
import { EngineError } from '../../engine.ts';
import { type CallOptions, engineClosed, RunningThread, type ThreadTimeouts } from './running-thread.ts';
import type { WorkerSettings } from './worker-messages.ts';

/**
 * A worker thread that starts when first needed, and again after it has died. An uncaught error, a full heap, or one
 * piece of JavaScript that takes too long ends only the thread. Calls into the native runtime have no time limit. If
 * the runtime aborts, or the system kills the process for its memory, the whole process ends.
 */
export class WorkerThread<Call> {
  readonly #module: URL;
  readonly #settings: WorkerSettings;
  readonly #timeouts: ThreadTimeouts;
  #running: RunningThread<Call> | undefined;
  #closed: Promise<void> | undefined;

  constructor(module: URL, settings: WorkerSettings, timeouts: Partial<ThreadTimeouts> = {}) {
    this.#module = module;
    this.#settings = settings;
    this.#timeouts = { startTimeoutMs, closeTimeoutMs: 10_000, ...timeouts };
  }

  /** The thread that runs now, which is started if necessary. Its calls fail after its death. */
  get running(): RunningThread<Call> {
    if (this.#closed) throw engineClosed();
    if (!this.#running || this.#running.isDead)
      this.#running = new RunningThread(this.#module, this.#settings, this.#timeouts);
    return this.#running;
  }

  async call<Result>(call: Call, options: CallOptions = {}): Promise<Result> {
    return this.running.call<Result>(call, options);
  }

  /** Sends a call to a thread that runs already, and does not wait for its result. */
  tell(call: Call): void {
    this.#running?.call(call).catch(() => undefined);
  }

  /** Rejects when the thread cannot be started, or has been silent for half its timeout. */
  async check(): Promise<void> {
    await this.running.ready;
    const silentMs = this.#running?.silentMs ?? 0;
    const { threadTimeoutMs } = this.#settings;
    if (silentMs > threadTimeoutMs / 2)
      throw new EngineError(
        'worker_stalled',
        `An engine thread has been silent for ${silentMs} ms. It is ended after ${threadTimeoutMs} ms.`,
      );
  }

  /** Fails all calls at once. Resolves once the thread has ended, which has ten seconds for its current step. */
  close(): Promise<void> {
    this.#closed ??= this.#running?.close() ?? Promise.resolve();
    return this.#closed;
  }
}

/** The URL of a worker's module, relative to this one: TypeScript in the sources, JavaScript in the built package. */
export function workerModule(path: string): URL {
  return new URL(`${path}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
}
