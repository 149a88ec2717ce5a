import { Worker } from 'node:worker_threads';
import type { z } from 'zod';
import { maxTimerMs } from '../../util/deadline.ts';
import type { RolloutFailure } from '../rollout.ts';
import type { RunRolloutOptions } from '../run-rollout.ts';
import { type BudgetNumbers, BudgetSlots } from '../sent/call-budgets.ts';
import {
  abortReasonOf,
  notCloneable,
  type SentModels,
  type SentRollout,
  timeOf,
  toSentStart,
} from '../sent/sent-rollout.ts';
import type { FromThread, ThreadStart, ToThread } from './thread-messages.ts';

/** The result of a rollout in a thread: the finished rollout, or why the thread lost it. */
type ThreadResult = { type: 'ended'; rollout: SentRollout } | { type: 'lost'; failure: RolloutFailure };

export interface RolloutThreadOptions extends ThreadStart {
  memoryLimitMb: number | undefined;
  startTimeoutMs: number;
  graceMs: number;
  /** Call budgets, which messages refer to by number. */
  budgets: BudgetNumbers;
  /** Called once, when the thread ends. */
  onEnd: () => void;
}

/** One worker thread and its rollouts in flight. Each of them gets a result, even if the thread dies. */
export class RolloutThread {
  readonly #worker: Worker;
  readonly #slots: BudgetSlots;
  readonly #options: RolloutThreadOptions;
  readonly #ready = Promise.withResolvers<string>();
  readonly #inFlight = new Map<number, (result: ThreadResult) => void>();
  readonly #startTimer: NodeJS.Timeout;
  #ids = 0;
  #lost: RolloutFailure | undefined;

  constructor(options: RolloutThreadOptions) {
    const { environment, exportName, memoryLimitMb, startTimeoutMs } = options;
    this.#options = options;
    this.#worker = new Worker(threadModule, {
      workerData: { environment, exportName } satisfies ThreadStart,
      ...(memoryLimitMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: memoryLimitMb } }),
    });
    this.#slots = new BudgetSlots(options.budgets, (message) => this.#worker.postMessage(message));
    this.#ready.promise.catch(() => undefined);
    this.#startTimer = setTimeout(
      () =>
        this.#end({
          code: 'worker_died',
          message: `${environment} did not load within ${startTimeoutMs} ms.`,
        }),
      startTimeoutMs,
    );
    this.#startTimer.unref();
    this.#worker.on('message', (message: FromThread) => this.#receive(message));
    this.#worker.on('error', (error) => this.#end(died(String(error))));
    this.#worker.on('messageerror', (error) => this.#end(died(String(error))));
    this.#worker.on('exit', (code) => this.#end(died(`it exited with code ${code}`)));
    this.#letProcessEnd();
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Runs a rollout of the environment that the thread must have loaded. Never throws. */
  async run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    models: SentModels,
  ): Promise<ThreadResult> {
    if (this.#lost) return { type: 'lost', failure: this.#lost };
    const id = this.#ids++;
    const { promise, resolve } = Promise.withResolvers<ThreadResult>();
    const timers = new Set<NodeJS.Timeout>();
    const expectWithin = (milliseconds: number) => {
      const afterMs = Math.min(milliseconds + this.#options.graceMs, maxTimerMs);
      timers.add(setTimeout(() => this.#overrun(id, overdue(task.timeoutMs)), afterMs));
    };
    const { signal, environment } = task;
    const time = timeOf(task);
    const start = toSentStart(task, models);
    const onAbort = () => {
      this.#worker.postMessage({ type: 'abort', id, reason: abortReasonOf(signal) } satisfies ToThread);
      expectWithin(time.afterAbortMs);
    };
    const leave = () => resolve({ type: 'lost', failure: abortReasonOf(signal) });
    this.#inFlight.set(id, resolve);
    this.#worker.ref();
    signal?.addEventListener('abort', leave, { once: true });
    const begin = (loaded: string) => {
      signal?.removeEventListener('abort', leave);
      if (!this.#inFlight.has(id) || signal?.aborted) return;
      if (loaded !== environment.name)
        return resolve({ type: 'lost', failure: mismatch(environment.name, loaded) });
      try {
        this.#worker.postMessage({ type: 'run', id, ...start } satisfies ToThread);
      } catch (error) {
        return resolve({ type: 'lost', failure: notCloneable(error) });
      }
      expectWithin(time.inAllMs);
      signal?.addEventListener('abort', onAbort, { once: true });
    };
    this.#ready.promise.then(begin, () => undefined);
    const result = await promise;
    for (const timer of timers) clearTimeout(timer);
    signal?.removeEventListener('abort', leave);
    signal?.removeEventListener('abort', onAbort);
    this.#inFlight.delete(id);
    this.#letProcessEnd();
    return result;
  }

  /** Ends the thread and its rollouts in flight. */
  async close(reason: RolloutFailure): Promise<void> {
    this.#end(reason);
    await this.#worker.terminate();
  }

  #receive(message: FromThread): void {
    if (this.#lost) return;
    if (message.type === 'ready') {
      clearTimeout(this.#startTimer);
      this.#ready.resolve(message.environment);
    } else if (message.type === 'unusable') this.#end(message.failure);
    else if (message.type === 'ended') this.#inFlight.get(message.id)?.(message);
    else this.#slots.receive(message);
  }

  #overrun(id: number, failure: RolloutFailure): void {
    this.#inFlight.get(id)?.({ type: 'lost', failure });
    this.#end({
      code: 'worker_died',
      message: `Another rollout blocked the worker thread, which was ended: ${failure.message}`,
    });
  }

  #end(failure: RolloutFailure): void {
    if (this.#lost) return;
    this.#lost = failure;
    clearTimeout(this.#startTimer);
    this.#ready.reject(failure);
    for (const resolve of this.#inFlight.values()) resolve({ type: 'lost', failure });
    this.#slots.releaseAll();
    this.#options.onEnd();
    void this.#worker.terminate();
  }

  /** An idle thread does not keep the process alive. */
  #letProcessEnd(): void {
    if (this.#inFlight.size === 0) this.#worker.unref();
  }
}

function died(how: string): RolloutFailure {
  const message = `The worker thread of the rollout died: ${how}. Its recorded calls are lost.`;
  return { code: 'worker_died', message };
}

const overdue = (timeoutMs: number): RolloutFailure => ({
  code: 'rollout_timeout',
  message:
    `The rollout and its rewards took longer than ${timeoutMs} ms and its worker thread no longer answered: ` +
    'the thread was ended. Look for a loop that blocks the thread.',
});

function mismatch(expected: string, loaded: string): RolloutFailure {
  return {
    code: 'environment_mismatch',
    message: `The rollout belongs to environment "${expected}", but the worker threads have loaded "${loaded}". Pass workerThreads() the module of the same environment.`,
  };
}

/** Entry module of a worker thread: `.ts` when run from source, `.js` in the built package. */
const threadModule = new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
