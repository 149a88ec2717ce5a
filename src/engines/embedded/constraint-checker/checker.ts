import { Worker } from 'node:worker_threads';
import PQueue from 'p-queue';
import type { Constraint } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { fromFailure } from '../worker-failure.ts';
import { workerModule } from '../worker-module.ts';
import { engineClosed } from '../worker-thread.ts';
import type { CheckReport } from './worker.ts';

export interface CheckerOptions {
  /** How long one constraint may take to compile. Default 1000. */
  timeoutMs?: number;
  /** Heap that the thread may use, in megabytes. Default 1024. */
  heapMegabytes?: number;
}

interface Running {
  worker: Worker;
  ready: Promise<CheckReport | undefined>;
}

const startTimeoutMs = 30_000;

/**
 * Tells whether constraints can be sampled under, one after the other, in a thread that is started when first needed
 * and again after it was ended. One that takes too long, or more memory than there is for it, is refused.
 */
export class ConstraintChecker {
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #timeoutMs: number;
  readonly #heapMegabytes: number;
  #running: Running | undefined;
  #closed = false;

  constructor({ timeoutMs = 1000, heapMegabytes = 1024 }: CheckerOptions = {}) {
    this.#timeoutMs = timeoutMs;
    this.#heapMegabytes = heapMegabytes;
  }

  /** Rejects with an `EngineError` that says what is wrong with a constraint. */
  check(constraint: Constraint): Promise<void> {
    return this.#queue.add(() => this.#check(constraint));
  }

  async close(): Promise<void> {
    this.#closed = true;
    const worker = this.#running?.worker;
    await worker?.terminate();
  }

  async #check(constraint: Constraint): Promise<void> {
    if (this.#closed) throw engineClosed();
    this.#running ??= this.#start();
    const { worker, ready } = this.#running;
    if ((await ready) !== 'ready') throw this.#closed ? engineClosed() : notStarted();
    worker.ref();
    try {
      const answer = nextReport(worker, this.#timeoutMs);
      worker.postMessage(constraint);
      const failure = await answer;
      if (failure === null) return;
      if (typeof failure === 'object') throw fromFailure(failure);
      throw this.#closed ? engineClosed() : this.#tooComplex();
    } finally {
      worker.unref();
    }
  }

  #start(): Running {
    const worker = new Worker(workerModule('./constraint-checker/worker'), {
      resourceLimits: { maxOldGenerationSizeMb: this.#heapMegabytes },
    });
    const running = { worker, ready: nextReport(worker, startTimeoutMs) };
    // What it throws, or that its heap is full, shows in its end.
    worker.on('error', () => {});
    worker.once('exit', () => {
      if (this.#running === running) this.#running = undefined;
    });
    return running;
  }

  #tooComplex(): EngineError {
    return new EngineError(
      'grammar_too_complex',
      `the constraint takes more than ${this.#timeoutMs} ms or ${this.#heapMegabytes} MB to compile: make it smaller, and its repetitions shorter`,
    );
  }
}

const notStarted = () =>
  new EngineError('worker_died', 'the thread that compiles constraints did not start; ask again');

/** What the thread says next; undefined where it ended first, or was ended for taking too long. */
function nextReport(worker: Worker, timeoutMs: number): Promise<CheckReport | undefined> {
  return new Promise((resolve) => {
    const finish = (report?: CheckReport) => {
      clearTimeout(timer);
      worker.off('message', finish);
      worker.off('exit', onEnd);
      resolve(report);
    };
    const onEnd = () => finish();
    // It resolves once the thread is gone, so that the next constraint finds another.
    const timer = setTimeout(() => void worker.terminate(), timeoutMs);
    worker.on('message', finish);
    worker.once('exit', onEnd);
  });
}
