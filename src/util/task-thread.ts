import { type Transferable, Worker } from 'node:worker_threads';
import { FairMutex, type Refusal } from './fair-mutex.ts';
import type { Caller } from './fair-queue.ts';
import { type MessageOutcome, nextMessage } from './next-message.ts';

/** On a busy machine, a task may take this many times its own time limit. */
const busyFactor = 8;
/** How long a thread may take to start. */
export const startTimeoutMs = 60_000;

interface TaskThreadOptions {
  module: URL;
  workerData: unknown;
  /** Processor time that one task may take, in milliseconds. */
  timeoutMs: number;
  heapMegabytes: number;
  /** Most tasks that wait. */
  maxWaiting: number;
  /** Longest wait of a task, in milliseconds. Default 60000. */
  maxWaitMs?: number;
  /** The thread ends after as long without a task, to give its memory back; null: it stays. Default 300000. */
  idleMs?: number | null;
  /** The error for a task that cannot wait. */
  refusal: (why: Refusal) => Error;
}

/** How a task ended. In all cases but `message` the thread has ended, or did not start. */
type TaskOutcome<Report> = MessageOutcome<Report> | { type: 'unstarted' };

interface Running {
  worker: Worker;
  ready: Promise<MessageOutcome<unknown>>;
}

/**
 * Runs tasks in a thread, one at a time, with tenants alternating, so that a large one does not hold up everybody else. The
 * thread starts when it is needed, and again after it has ended. It sends a message when it has started, then one for each
 * task.
 */
export class TaskThread<Task, Report> {
  readonly #options: TaskThreadOptions;
  readonly #mutex: FairMutex;
  #running: Running | undefined;
  #idle: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: TaskThreadOptions) {
    this.#options = options;
    const { maxWaiting, maxWaitMs = 60_000, refusal } = options;
    this.#mutex = new FairMutex({ maxWaiting, maxWaitMs, refusal });
  }

  /** @throws the refusal if the task cannot wait; the caller's reason if its signal aborts during the wait. */
  run(
    task: Task,
    { caller, transfer = [] }: { caller?: Caller | undefined; transfer?: Transferable[] } = {},
  ): Promise<TaskOutcome<Report>> {
    return this.#mutex.run(() => this.#run(task, transfer), caller);
  }

  /** Ends the thread. Tasks that wait are not run. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#idle);
    await this.#running?.worker.terminate();
  }

  async #run(task: Task, transfer: Transferable[]): Promise<TaskOutcome<Report>> {
    if (this.#isClosed) return { type: 'unstarted' };
    clearTimeout(this.#idle);
    this.#running ??= this.#start();
    const { worker, ready } = this.#running;
    const { timeoutMs, idleMs = 300_000 } = this.#options;
    try {
      if ((await ready).type !== 'message') return { type: 'unstarted' };
      const answer = nextMessage<Report>(worker, { timeoutMs, maxMs: busyFactor * timeoutMs });
      worker.postMessage(task, transfer);
      return await answer;
    } finally {
      if (idleMs !== null) this.#idle = setTimeout(() => this.#end(worker), idleMs).unref();
    }
  }

  #end(worker: Worker): void {
    if (this.#running?.worker === worker) this.#running = undefined;
    void worker.terminate();
  }

  #start(): Running {
    const { module, workerData, heapMegabytes } = this.#options;
    const worker = new Worker(module, {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    });
    // The thread must not keep the program alive: callers that wait have a socket or a timer.
    worker.unref();
    const running = { worker, ready: nextMessage(worker, { timeoutMs: startTimeoutMs }) };
    worker.on('error', () => {});
    worker.once('exit', () => {
      if (this.#running === running) this.#running = undefined;
    });
    return running;
  }
}
