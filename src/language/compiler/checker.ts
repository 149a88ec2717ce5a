import { LRUCache } from 'lru-cache';
import type { Refusal } from '../../util/fair-mutex.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { SharedWork } from '../../util/shared-work.ts';
import { TaskThread } from '../../util/task-thread.ts';
import type { SharedLanguage } from '../chat/read-language.ts';
import { LanguageError } from '../error.ts';
import type { Constraint } from '../grammar/constraint.ts';
import { type ConstraintPlan, planSize } from './compiler.ts';
import type { CheckReport } from './compiler-thread.ts';

export interface CheckerOptions {
  /** The language whose tokens the constraints allow. */
  language: SharedLanguage;
  /** Processor time that one constraint may take, in milliseconds, however busy the machine is. Default 1000. */
  timeoutMs?: number;
  /** Heap limit of the thread in megabytes. Default 1024. */
  heapMegabytes?: number;
  /** Most constraints that may wait. One tenant may have as many as slots are free. Default 1024. */
  maxWaiting?: number;
}

/** Nodes of all cached plans: some fifty megabytes. */
const cachedNodes = 4_000_000;

/**
 * Checks constraints of one tokenizer by compiling them in a thread, so that sampling does not wait. A constraint that takes
 * too much time or memory is refused.
 */
export class ConstraintChecker {
  readonly #thread: TaskThread<Constraint, CheckReport>;
  readonly #limits: { timeoutMs: number; heapMegabytes: number };
  readonly #compiling = new SharedWork<Constraint, ConstraintPlan>();
  /** Plan names of compiled constraints, which do not change any more. */
  readonly #names = new WeakMap<Constraint, string>();
  readonly #plans = new LRUCache<string, ConstraintPlan>({
    maxSize: cachedNodes,
    sizeCalculation: (plan) => planSize(plan) + 1,
  });
  #closed = false;

  constructor({ language, timeoutMs = 1000, heapMegabytes = 1024, maxWaiting = 1024 }: CheckerOptions) {
    this.#limits = { timeoutMs, heapMegabytes };
    this.#thread = new TaskThread({
      module: threadModule,
      workerData: language,
      ...this.#limits,
      ...{ maxWaiting, maxWaitMs: 30_000, refusal: busy },
      // A large vocabulary takes a second to read again.
      idleMs: null,
    });
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
      const plan = await this.#compile(constraint, { tenant, signal: shared });
      this.#names.set(constraint, plan.name);
      this.#plans.set(plan.name, plan);
      return plan;
    };
    return this.#compiling.join(constraint, compile, signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#thread.close();
  }

  async #compile(constraint: Constraint, caller: Caller): Promise<ConstraintPlan> {
    const result = await this.#thread.run(constraint, { caller });
    if (result.type === 'message') {
      const { message } = result;
      if (message.type === 'plan') return message.plan;
      throw new LanguageError(message.code, message.message);
    }
    if (this.#closed) throw engineClosed();
    if (result.type === 'unstarted')
      throw new LanguageError(
        'worker_died',
        'The thread that compiles constraints did not start. Try again.',
      );
    if (result.type === 'starved')
      throw new LanguageError(
        'constraints_busy',
        'The machine is too busy to compile the constraint. Try again.',
      );
    const { timeoutMs, heapMegabytes } = this.#limits;
    throw new LanguageError(
      'grammar_too_complex',
      `The constraint takes more than ${timeoutMs} ms or ${heapMegabytes} MB to compile. Make it smaller, and its repetitions shorter.`,
    );
  }
}

const threadModule = new URL(
  `./compiler-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

const engineClosed = () => new LanguageError('engine_closed', 'The engine has been closed.');

const busy = (why: Refusal) =>
  new LanguageError(
    'constraints_busy',
    why === 'share_full'
      ? 'Too many constraints of this key are waiting to be compiled. Send fewer new ones at a time.'
      : 'Too many constraints are waiting to be compiled. Try again.',
  );
