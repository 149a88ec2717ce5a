import { Worker } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import { FairMutex, type Refusal } from '../../util/fair-mutex.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { type MessageOutcome, nextMessage } from '../../util/next-message.ts';
import { SharedWork } from '../../util/shared-work.ts';
import type { SharedLanguage } from '../chat/read-language.ts';
import { LanguageError } from '../error.ts';
import type { Constraint } from '../grammar/constraint.ts';
import { type ConstraintPlan, planSize } from './compiler.ts';
import type { CheckReport, CheckStart } from './compiler-thread.ts';

export interface CheckerOptions {
  /** Whose tokens constraints allow. */
  language: SharedLanguage;
  /** Processor time that one constraint may take, in milliseconds, however busy the machine is. Default 1000. */
  timeoutMs?: number;
  /** Heap limit of the thread in megabytes. Default 1024. */
  heapMegabytes?: number;
  /** Most constraints that may wait. One tenant may have as many as slots are free. Default 1024. */
  maxWaiting?: number;
}

interface Running {
  worker: Worker;
  ready: Promise<MessageOutcome<CheckReport>>;
}

const startTimeoutMs = 30_000;
/** On a busy machine, a constraint may take this many times its own time limit. */
const busyFactor = 8;
/** Nodes of all cached plans: some fifty megabytes. */
const cachedNodes = 4_000_000;

/**
 * Checks constraints of one tokenizer by compiling them in a thread, so that sampling does not wait: one at a time, with tenants
 * alternating. The thread starts when it is needed, and again after it has ended. A constraint that takes too much time
 * or memory is refused.
 */
export class ConstraintChecker {
  readonly #mutex: FairMutex;
  readonly #language: SharedLanguage;
  readonly #timeoutMs: number;
  readonly #heapMegabytes: number;
  readonly #compiling = new SharedWork<Constraint, ConstraintPlan>();
  /** Plan names of compiled constraints, which do not change any more. */
  readonly #names = new WeakMap<Constraint, string>();
  readonly #plans = new LRUCache<string, ConstraintPlan>({
    maxSize: cachedNodes,
    sizeCalculation: (plan) => planSize(plan) + 1,
  });
  #running: Running | undefined;
  #closed = false;

  constructor({ language, timeoutMs = 1000, heapMegabytes = 1024, maxWaiting = 1024 }: CheckerOptions) {
    this.#language = language;
    this.#timeoutMs = timeoutMs;
    this.#heapMegabytes = heapMegabytes;
    this.#mutex = new FairMutex({ maxWaiting, maxWaitMs: 30_000, refusal: busy });
  }

  /**
   * Compiles a constraint to the plan that the engine's threads continue from. Rejects with the signal's reason when it
   * aborts.
   * @throws LanguageError that says what is wrong with the constraint, or `constraints_busy` if too many wait.
   */
  async plan(constraint: Constraint, { tenant, signal }: Caller = {}): Promise<ConstraintPlan> {
    if (this.#closed) throw engineClosed();
    const name = this.#names.get(constraint);
    const known = name === undefined ? undefined : this.#plans.get(name);
    if (known) return known;
    const compile = async (shared: AbortSignal) => {
      const plan = await this.#mutex.run(() => this.#compile(constraint), { tenant, signal: shared });
      this.#names.set(constraint, plan.name);
      this.#plans.set(plan.name, plan);
      return plan;
    };
    return this.#compiling.join(constraint, compile, signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#running?.worker.terminate();
  }

  async #compile(constraint: Constraint): Promise<ConstraintPlan> {
    if (this.#closed) throw engineClosed();
    this.#running ??= this.#start();
    const { worker, ready } = this.#running;
    if ((await ready).type !== 'message') throw this.#closed ? engineClosed() : notStarted();
    worker.ref();
    try {
      const answer = nextMessage<CheckReport>(worker, {
        timeoutMs: this.#timeoutMs,
        maxMs: busyFactor * this.#timeoutMs,
      });
      worker.postMessage(constraint);
      return this.#planOf(await answer);
    } finally {
      worker.unref();
    }
  }

  #planOf(answer: MessageOutcome<CheckReport>): ConstraintPlan {
    if (answer.type === 'message') {
      const { message } = answer;
      if (message.type === 'plan') return message.plan;
      if (message.type === 'refused') throw new LanguageError(message.code, message.message);
    }
    if (this.#closed) throw engineClosed();
    throw answer.type === 'starved' ? machineBusy() : this.#tooComplex();
  }

  #start(): Running {
    const worker = new Worker(workerModule, {
      workerData: { language: this.#language } satisfies CheckStart,
      resourceLimits: { maxOldGenerationSizeMb: this.#heapMegabytes },
    });
    const running = { worker, ready: nextMessage<CheckReport>(worker, { timeoutMs: startTimeoutMs }) };
    // The exit event reports a thrown error or a full heap.
    worker.on('error', () => {});
    worker.once('exit', () => {
      if (this.#running === running) this.#running = undefined;
    });
    return running;
  }

  #tooComplex(): LanguageError {
    return new LanguageError(
      'grammar_too_complex',
      `The constraint takes more than ${this.#timeoutMs} ms or ${this.#heapMegabytes} MB to compile. Make it smaller, and its repetitions shorter.`,
    );
  }
}

const workerModule = new URL(
  `./compiler-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

const engineClosed = () => new LanguageError('engine_closed', 'The engine has been closed.');

const notStarted = () =>
  new LanguageError('worker_died', 'The thread that compiles constraints did not start. Try again.');

const machineBusy = () =>
  new LanguageError('constraints_busy', 'The machine is too busy to compile the constraint. Try again.');

const busy = (why: Refusal) =>
  new LanguageError(
    'constraints_busy',
    why === 'share_full'
      ? 'Too many constraints of this key are waiting to be compiled. Send fewer new ones at a time.'
      : 'Too many constraints are waiting to be compiled. Try again.',
  );
