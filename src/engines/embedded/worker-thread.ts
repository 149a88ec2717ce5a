import { Worker } from 'node:worker_threads';
import { EngineError } from '../engine-error.ts';
import type { WorkerReady, WorkerSettings } from './worker-messages.ts';

/**
 * A worker thread that is started when first needed, and again after it died. `onDeath` hears the reason, to fail
 * what the thread had in hand.
 */
export class WorkerThread<Request, Report> {
  readonly #module: URL;
  readonly #settings: WorkerSettings;
  readonly #onReport: (report: Report) => void;
  readonly #onDeath: (error: EngineError) => void;
  #runtime: string | undefined;
  #worker: Promise<Worker> | undefined;
  #closed = false;

  constructor(
    module: URL,
    settings: WorkerSettings,
    handlers: { onReport: (report: Report) => void; onDeath: (error: EngineError) => void },
  ) {
    this.#module = module;
    this.#settings = settings;
    this.#onReport = handlers.onReport;
    this.#onDeath = handlers.onDeath;
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
    if (this.#closed) return Promise.reject(new EngineError('engine_closed', 'the engine has been closed'));
    this.#worker ??= this.#spawn();
    return this.#worker;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const worker = await this.#worker?.catch(() => undefined);
    await worker?.terminate();
  }

  #spawn(): Promise<Worker> {
    const worker = new Worker(this.#module, { workerData: this.#settings });
    return new Promise((resolve, reject) => {
      let reason: unknown;
      worker.once('message', (ready: WorkerReady) => {
        this.#runtime = ready.runtime;
        worker.on('message', this.#onReport);
        resolve(worker);
      });
      worker.once('error', (error) => {
        reason = error;
      });
      worker.once('exit', (code) => {
        this.#worker = undefined;
        const cause = reason instanceof Error ? reason.message : `exit code ${code}`;
        const error = this.#closed
          ? new EngineError('engine_closed', 'the engine has been closed')
          : new EngineError(
              'worker_died',
              `an engine thread died (${cause}); what it had in hand is lost, ask again`,
            );
        reject(error);
        this.#onDeath(error);
      });
    });
  }
}
