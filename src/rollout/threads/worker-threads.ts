import { availableParallelism } from 'node:os';
import type { z } from 'zod';
import { wholeNumberOption } from '../../util/option-error.ts';
import { type OptionNames, requireOptions } from '../../util/option-names.ts';
import { type RolloutExecutor, RolloutQueue } from '../executor.ts';
import type { Rollout } from '../rollout.ts';
import { requireMilliseconds } from '../rollout-settings.ts';
import { inRolloutSpan } from '../rollout-span.ts';
import { type RunRolloutOptions, runWithinSpan } from '../run-rollout.ts';
import { BudgetNumbers } from '../sent/call-budgets.ts';
import { describeModels, lostRollout, toRollout } from '../sent/sent-rollout.ts';
import { RolloutThread, type RolloutThreadOptions } from './rollout-thread.ts';

export interface WorkerThreadsOptions {
  /**
   * Module that exports the environment, as `new URL('./environment.ts', import.meta.url)`. Each thread loads it once.
   */
  environment: URL;
  /** Name of the export. Default `default`. */
  exportName?: string;
  /** Number of threads. Default: one less than the number of CPU cores, at least 1. */
  threads?: number;
  /** Rollouts in flight at a time, over all threads. Default: 8 per thread. */
  concurrency?: number;
  /** Maximum heap of a thread, in MiB. A thread that needs more dies, and its rollouts fail. Default: Node's limit. */
  memoryLimitMb?: number;
  /** How long a thread may take to load the environment, in milliseconds. Default 60,000. */
  startTimeoutMs?: number;
  /**
   * How long a thread may stay silent after a rollout's deadline or cancellation, in milliseconds. After that it counts
   * as stuck and is ended with all its rollouts, so rollouts must yield to the event loop more often. Default 5,000.
   */
  graceMs?: number;
}

const workerThreadsNames = {
  environment: 'module',
  exportName: 'text',
  threads: true,
  concurrency: true,
  memoryLimitMb: true,
  startTimeoutMs: true,
  graceMs: true,
} satisfies OptionNames<WorkerThreadsOptions>;

/**
 * Runs rollouts in worker threads, for environments that use much CPU. Scenarios, trajectories and outcomes are passed
 * as structured clones. The threads call the model's service directly and share the model's `budget`. If a thread dies
 * or does not answer by a rollout's deadline, its rollouts fail (`worker_died`) and the thread is replaced. Group
 * rewards run in the main thread. Close the executor when it is no longer needed.
 * @throws OptionError
 */
export function workerThreads(options: WorkerThreadsOptions): RolloutExecutor {
  requireOptions('workerThreads()', options, workerThreadsNames, ['environment']);
  return new ThreadExecutor(options);
}

const code = 'invalid_rollout_option';

export class ThreadExecutor implements RolloutExecutor {
  readonly #options: Omit<RolloutThreadOptions, 'onEnd'>;
  readonly #queue: RolloutQueue;
  readonly #threads = new Set<RolloutThread>();
  readonly #size: number;
  readonly #budgets = new BudgetNumbers();

  constructor(options: WorkerThreadsOptions) {
    const { threads = Math.max(1, availableParallelism() - 1), memoryLimitMb } = options;
    this.#size = wholeNumberOption(code, 'threads', threads, 1);
    this.#queue = new RolloutQueue(
      wholeNumberOption(code, 'concurrency', options.concurrency ?? 8 * threads, 1),
    );
    if (memoryLimitMb !== undefined) wholeNumberOption(code, 'memoryLimitMb', memoryLimitMb, 1);
    this.#options = {
      environment: options.environment.href,
      exportName: options.exportName ?? 'default',
      memoryLimitMb,
      graceMs: requireMilliseconds('graceMs', options.graceMs ?? 5_000),
      startTimeoutMs: requireMilliseconds('startTimeoutMs', options.startTimeoutMs ?? 60_000),
      budgets: this.#budgets,
    };
  }

  run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
    { order }: { order?: number } = {},
  ): Promise<Rollout<Outcome>> {
    return this.#queue.run({ signal: task.signal, order }, (signal) =>
      // The span is created in the main thread, where the application has set up its OpenTelemetry SDK.
      inRolloutSpan(task, () => this.#run({ ...task, signal })),
    );
  }

  /** Runs a rollout whose span is the current one, or one of another process. Never throws. */
  runWithinSpan<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
  ): Promise<Rollout<Outcome>> {
    return this.#queue.run({ signal: task.signal }, (signal) => this.#run({ ...task, signal }));
  }

  async close(): Promise<void> {
    await this.#queue.close();
    const reason = { code: 'executor_closed', message: 'The executor was closed.' };
    await Promise.all([...this.#threads].map((thread) => thread.close(reason)));
  }

  async #run<Schema extends z.ZodType, Outcome>(
    task: RunRolloutOptions<Schema, Outcome>,
  ): Promise<Rollout<Outcome>> {
    // A rollout that is already aborted needs no thread.
    if (task.signal?.aborted) return runWithinSpan(task);
    const startedAt = performance.now();
    const models = describeModels(task, (budget) => this.#budgets.numberOf(budget));
    if ('failure' in models) return lostRollout(task, models.failure, startedAt);
    const result = await this.#thread().run(task, models.sent);
    return result.type === 'ended'
      ? toRollout<Outcome>(result.rollout)
      : lostRollout(task, result.failure, startedAt);
  }

  /** The least busy thread, or a new one if all are busy and the maximum is not reached. */
  #thread(): RolloutThread {
    const [first] = [...this.#threads].sort((a, b) => a.inFlight - b.inFlight);
    if (first && (first.inFlight === 0 || this.#threads.size >= this.#size)) return first;
    const onEnd = () => void this.#threads.delete(thread);
    const thread = new RolloutThread({ ...this.#options, onEnd });
    this.#threads.add(thread);
    return thread;
  }
}
