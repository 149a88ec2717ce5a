import { Worker } from 'node:worker_threads';
import { hasCode } from '../../../util/error.ts';
import { EngineError } from '../../engine.ts';
import { NativeGate, shutAtExit } from './native-gate.ts';
import { Watchdog } from './watchdog.ts';
import type { CloseRequest, WorkerReady, WorkerSettings, WorkerStart } from './worker-messages.ts';

/** How long a closing thread may take to complete its current step. */
const closeTimeoutMs = 10_000;

interface Handlers<Report> {
  onReport: (report: Report) => void;
  /** Called when the thread has ended or closes: the calls in flight must fail with this error. */
  onDeath: (error: EngineError) => void;
}

interface Running {
  worker: Worker;
  ready: Promise<Worker>;
  exited: Promise<void>;
  watchdog: Watchdog;
  /** Terminates the thread as soon as it is outside the native runtime. */
  terminate: (reason: Error) => void;
}

/**
 * A worker thread that starts when first needed, and again after it has died. An uncaught error, a full heap, or one
 * piece of JavaScript that takes too long ends only the thread. Calls into the native runtime have no time limit. If
 * the runtime aborts, or the system kills the process for its memory, the whole process ends.
 */
export class WorkerThread<Request, Report> {
  readonly #module: URL;
  readonly #settings: WorkerSettings;
  readonly #handlers: Handlers<Report>;
  readonly #closeTimeoutMs: number;
  #runtime: string | undefined;
  #running: Running | undefined;
  #closed: Promise<void> | undefined;

  constructor(
    module: URL,
    settings: WorkerSettings,
    handlers: Handlers<Report>,
    options: { closeTimeoutMs?: number } = {},
  ) {
    this.#module = module;
    this.#settings = settings;
    this.#handlers = handlers;
    this.#closeTimeoutMs = options.closeTimeoutMs ?? closeTimeoutMs;
  }

  /** Name of the thread's runtime; undefined before it has started. */
  get runtime(): string | undefined {
    return this.#runtime;
  }

  /** Starts the thread if necessary; resolves once the message is posted. */
  async send(request: Request): Promise<void> {
    (await this.start()).postMessage(request);
  }

  start(): Promise<Worker> {
    if (this.#closed) return Promise.reject(engineClosed());
    this.#running ??= this.#spawn();
    return this.#running.ready;
  }

  /** Rejects when the thread cannot be started, or has been silent for half its timeout. */
  async check(): Promise<void> {
    await this.start();
    const { watchdog } = this.#running ?? {};
    if (watchdog && watchdog.stillMs > this.#settings.threadTimeoutMs / 2)
      throw new EngineError(
        'worker_stalled',
        `an engine thread has been at one thing for ${watchdog.stillMs} ms; it is ended at ${this.#settings.threadTimeoutMs} ms`,
      );
  }

  /**
   * Fails all calls in flight at once and asks the thread to exit, because terminating a thread inside the native
   * runtime aborts the whole process. Resolves once the thread has ended. After the deadline it is terminated.
   */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#handlers.onDeath(engineClosed());
    if (!this.#running) return;
    const { worker, exited, terminate } = this.#running;
    // A thread that is still starting gets the message later.
    worker.postMessage({ type: 'close' } satisfies CloseRequest);
    const deadline = setTimeout(() => terminate(engineClosed()), this.#closeTimeoutMs);
    await exited;
    clearTimeout(deadline);
  }

  #spawn(): Running {
    const gate = new NativeGate();
    const watchdog = new Watchdog(this.#settings.threadTimeoutMs);
    const workerData = {
      settings: this.#settings,
      gate: gate.shared,
      watchdog: watchdog.start,
    } satisfies WorkerStart;
    const worker = new Worker(this.#module, {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(this.#settings.threadHeapBytes / 2 ** 20) },
    });
    const forget = shutAtExit(gate);
    const ready = Promise.withResolvers<Worker>();
    const exited = Promise.withResolvers<void>();
    let reason: unknown;
    let unwatch = () => {};
    const terminate = (why: Error) => {
      reason ??= why;
      void gate.lock().then(() => worker.terminate());
    };
    worker.once('message', ({ runtime }: WorkerReady) => {
      this.#runtime = runtime;
      worker.on('message', (report: Report) => {
        if (!this.#closed) this.#handlers.onReport(report);
      });
      unwatch = watchdog.watch({
        excused: () => gate.occupied,
        onStill: () => terminate(new Error(`it did one thing for ${this.#settings.threadTimeoutMs} ms`)),
      });
      ready.resolve(worker);
    });
    worker.once('error', (error) => {
      reason = error;
    });
    worker.once('exit', (code) => {
      forget();
      unwatch();
      this.#running = undefined;
      const error = this.#closed ? engineClosed() : (startFailure(reason) ?? workerDied(reason, code));
      ready.reject(error);
      this.#handlers.onDeath(error);
      exited.resolve();
    });
    return { worker, ready: ready.promise, exited: exited.promise, watchdog, terminate };
  }
}

/** The error of a thread that found no runtime: its message already has the remedy. */
function startFailure(reason: unknown): EngineError | undefined {
  // Between threads an error keeps its fields but not its class.
  return hasCode(reason, 'runtime_missing') ? new EngineError('runtime_missing', reason.message) : undefined;
}

function workerDied(reason: unknown, code: number): EngineError {
  const cause = reason instanceof Error ? reason.message : `exit code ${code}`;
  return new EngineError(
    'worker_died',
    `an engine thread died (${cause}); what it had in hand is lost, ask again`,
  );
}

export function engineClosed(): EngineError {
  return new EngineError('engine_closed', 'the engine has been closed');
}

interface Waiting<Result> {
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/** Calls to a worker thread that have no answer yet, by call id. */
export class Outstanding<Result> {
  readonly #waiting = new Map<number, Waiting<Result>>();

  /** Resolves or rejects with the answer to a call. */
  wait(id: number): Promise<Result> {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** Ignores unknown ids: a call may be cancelled while its answer is on the way. */
  resolve(id: number, result: Result): void {
    this.#take(id)?.resolve(result);
  }

  reject(id: number, error: unknown): void {
    this.#take(id)?.reject(error);
  }

  rejectAll(error: unknown): void {
    for (const id of [...this.#waiting.keys()]) this.reject(id, error);
  }

  #take(id: number): Waiting<Result> | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}

/** The URL of a worker's module, relative to this one: TypeScript in the sources, JavaScript in the built package. */
export function workerModule(path: string): URL {
  return new URL(`${path}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
}
