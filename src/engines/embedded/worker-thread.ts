import { Worker } from 'node:worker_threads';
import { EngineError } from '../engine-error.ts';
import { NativeGate, shutAtExit } from './native-gate.ts';
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
}

/** A worker thread that is started when first needed, and again after it died. */
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
    const { worker, exited } = this.#running;
    // One that is still starting finds the message when it has started.
    worker.postMessage({ type: 'close' } satisfies CloseRequest);
    const deadline = setTimeout(() => void worker.terminate(), this.#closeTimeoutMs);
    await exited;
    clearTimeout(deadline);
  }

  #spawn(): Running {
    const gate = new NativeGate();
    const workerData = { settings: this.#settings, gate: gate.shared } satisfies WorkerStart;
    const worker = new Worker(this.#module, { workerData });
    const forget = shutAtExit(gate);
    const ready = Promise.withResolvers<Worker>();
    const exited = Promise.withResolvers<void>();
    let reason: unknown;
    worker.once('message', ({ runtime }: WorkerReady) => {
      this.#runtime = runtime;
      worker.on('message', (report: Report) => {
        if (!this.#closed) this.#handlers.onReport(report);
      });
      ready.resolve(worker);
    });
    worker.once('error', (error) => {
      reason = error;
    });
    worker.once('exit', (code) => {
      forget();
      this.#running = undefined;
      const cause = reason instanceof Error ? reason.message : `exit code ${code}`;
      const error = this.#closed ? engineClosed() : workerDied(cause);
      ready.reject(error);
      this.#handlers.onDeath(error);
      exited.resolve();
    });
    return { worker, ready: ready.promise, exited: exited.promise };
  }
}

function workerDied(cause: string): EngineError {
  return new EngineError(
    'worker_died',
    `an engine thread died (${cause}); what it had in hand is lost, ask again`,
  );
}

export function engineClosed(): EngineError {
  return new EngineError('engine_closed', 'the engine has been closed');
}
