import { Worker } from 'node:worker_threads';
import { EngineError } from '../../engine.ts';
import { NativeGate, shutAtExit } from './native-gate.ts';
import { Watchdog } from './watchdog.ts';
import type { CloseRequest, WorkerReady, WorkerSettings, WorkerStart } from './worker-messages.ts';

/** How long a thread that is to close may take to end the step it is in. */
const closeTimeoutMs = 10_000;

interface Handlers<Report> {
  onReport: (report: Report) => void;
  /** Hears why nothing more comes of what the thread has in hand, to fail it. */
  onDeath: (error: EngineError) => void;
}

interface Running {
  worker: Worker;
  ready: Promise<Worker>;
  exited: Promise<void>;
  watchdog: Watchdog;
  /** Terminates it as soon as it is out of the native runtime. */
  terminate: (reason: Error) => void;
}

/**
 * A worker thread that is started when first needed, and again after it died. It dies alone of what it throws, of a
 * heap that is full, and of one piece of JavaScript that takes too long. What it asks of the native runtime is given
 * the time that it takes, and where the runtime aborts or the system ends the process for its memory, all is over.
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

  /** Name of the runtime that the thread found; undefined before it has started. */
  get runtime(): string | undefined {
    return this.#runtime;
  }

  /** Resolves once the thread has the message. */
  async send(request: Request): Promise<void> {
    (await this.start()).postMessage(request);
  }

  start(): Promise<Worker> {
    if (this.#closed) return Promise.reject(engineClosed());
    this.#running ??= this.#spawn();
    return this.#running.ready;
  }

  /** Rejects where it cannot be started, or has not been heard of for a while. */
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
   * Fails at once what the thread has in hand, and asks it to end by itself: a thread that is terminated while the
   * native runtime works takes the whole process with it. Resolves once it is gone. Terminates it after all where it
   * is not gone by the deadline.
   */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#handlers.onDeath(engineClosed());
    if (!this.#running) return;
    const { worker, exited, terminate } = this.#running;
    // One that is still starting finds the message when it has started.
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

/** What a thread threw before it was ready, where that says itself what to do: a runtime that is not installed. */
function startFailure(reason: unknown): EngineError | undefined {
  // An error that crosses threads keeps its fields, but not its class.
  const isMissing = reason instanceof Error && 'code' in reason && reason.code === 'runtime_missing';
  return isMissing ? new EngineError('runtime_missing', reason.message) : undefined;
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

/** Calls to a worker thread that have not been answered, by the number that each was sent with. */
export class Outstanding<Result> {
  readonly #waiting = new Map<number, Waiting<Result>>();

  /** The answer that will come for a number. */
  wait(id: number): Promise<Result> {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** What nobody waits for is passed over: an answer may cross its cancellation. */
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

/** A worker's module beside this one: TypeScript where this is TypeScript, JavaScript in the built package. */
export function workerModule(path: string): URL {
  return new URL(`${path}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
}
