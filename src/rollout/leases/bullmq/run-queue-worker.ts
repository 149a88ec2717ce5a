import { setTimeout as sleep } from 'node:timers/promises';
import { MartingaleError } from '../../../contract/index.ts';
import { withDeadline } from '../../../util/deadline.ts';
import type { RolloutCounts } from '../../rollout.ts';
import { environmentFiles, versionOf } from '../environment-version.ts';
import type { FromWorker } from '../wire.ts';
import { ProgramConnection } from '../worker/connection.ts';
import { type WorkerOptions, WorkerRunner } from '../worker/worker-runner.ts';
import type { WorkerSession } from '../worker/worker-session.ts';
import { WorkerError } from '../worker-error.ts';
import {
  closedSoon,
  type LeaseJob,
  type LeaseQueueWorker,
  openQueueWorker,
  queueName,
} from './open-bullmq.ts';

interface RunQueueWorkerOptions extends WorkerOptions {
  /** URL of Redis or PostgreSQL. */
  connection: string;
  /** How long to wait for a server of the queue that cannot be reached, in milliseconds. */
  waitMs: number;
}

/** Pause before a server that is away is tried again, in milliseconds. */
const againMs = 1000;

/**
 * After so long without a sign of a worker, BullMQ gives its jobs to others, in milliseconds. Short, because a job that is
 * given too early does no harm: its lease is not to be had.
 */
const lockMs = 8000;

/** How long a program that has refused this worker is not asked again, in milliseconds. */
const refusedMs = 30_000;

/**
 * Runs rollouts of the programs that announce them in a BullMQ queue with `bullmq()`, until the signal aborts.
 * @returns the number of rollouts by how they ended.
 * @throws WorkerError: `queue_unreachable` after `waitMs`; `package_missing`.
 */
export async function runQueueWorker(options: RunQueueWorkerOptions): Promise<RolloutCounts> {
  const { module, environment, concurrency, name, signal, log, leaveWithinMs } = options;
  const files = await environmentFiles(module);
  const runner = new WorkerRunner(options, files, { claims: true });
  const ending = new AbortController();
  const programs = new Programs(runner, options, ending);
  const queue = queueName(environment.name, versionOf(files));
  const run = ({ url, lease }: { url: string; lease: string }) => programs.run(url, lease);
  const onAbort = () => ending.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  const ended = new Promise<void>((resolve) => {
    if (ending.signal.aborted) resolve();
    else ending.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const worker = await openReady(options, queue, run, ending.signal).catch((error: unknown) => {
    ending.abort(error);
    return undefined;
  });
  if (worker)
    log(`${name} takes up to ${concurrency} rollouts of "${environment.name}" from the queue ${queue}.`);
  await ended;
  signal.removeEventListener('abort', onAbort);
  // It takes no more jobs, and waits for those that it has.
  const closing = worker?.close();
  closing?.catch(() => undefined);
  await programs.leave(leaveWithinMs);
  await closedSoon(closing);
  await runner.close();
  if (!signal.aborted) throw ending.signal.reason;
  return runner.counts;
}

/** A worker of the queue, as soon as its server answers. @throws WorkerError; the signal's reason. */
async function openReady(
  { connection, concurrency, waitMs, log }: RunQueueWorkerOptions,
  queue: string,
  run: (job: LeaseJob) => Promise<boolean>,
  signal: AbortSignal,
): Promise<LeaseQueueWorker> {
  let told = '';
  const tell = (error: Error) => {
    // BullMQ says so of each job that a server without its data, or another worker, has taken away.
    if (/Missing (key|lock) for job/.test(error.message) || error.message === told) return;
    told = error.message;
    log(`The queue: ${told}`);
  };
  const endsAt = performance.now() + waitMs;
  for (;;) {
    const worker = await openQueueWorker(connection, queue, { concurrency, lockMs, run });
    worker.on('error', tell);
    const timedOut = () => new Error(told || 'no answer');
    try {
      const limit = { timeoutMs: endsAt - performance.now(), signal, timedOut };
      await withDeadline(limit, () => worker.waitUntilReady());
      return worker;
    } catch (error) {
      void closedSoon(worker.close());
      signal.throwIfAborted();
      tell(error instanceof Error ? error : new Error(String(error)));
      if (performance.now() >= endsAt)
        throw new WorkerError('queue_unreachable', `The server of the queue cannot be reached: ${told}`);
      // PostgreSQL says at once that it is away, and is not tried again by itself.
      await sleep(againMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** The programs that this worker has joined, by their address. */
class Programs {
  readonly #runner: WorkerRunner;
  readonly #options: RunQueueWorkerOptions;
  readonly #ending: AbortController;
  readonly #sessions = new Map<string, Promise<WorkerSession>>();
  readonly #ended = new Set<Promise<void>>();
  /** Programs of which it was said that their rollouts are left. */
  readonly #told = new Set<string>();
  /** When programs that have refused this worker may be asked again. */
  readonly #refusedUntil = new Map<string, number>();

  constructor(runner: WorkerRunner, options: RunQueueWorkerOptions, ending: AbortController) {
    this.#runner = runner;
    this.#options = options;
    this.#ending = ending;
  }

  /**
   * Runs a lease of a program, if it is still to be had. A program that is gone needs it no more. Never throws.
   * @returns false if the program refuses this worker, so that another one has to run it.
   */
  async run(url: string, lease: string): Promise<boolean> {
    if ((this.#refusedUntil.get(url) ?? 0) > performance.now()) return false;
    try {
      const session = await this.#sessionOf(url);
      await session.claim(lease);
      return true;
    } catch (error) {
      const isRefused = error instanceof WorkerError && error.code === 'worker_refused';
      if (isRefused) this.#refusedUntil.set(url, performance.now() + refusedMs);
      // Another program of the queue may take this worker.
      const isTold = this.#told.has(url);
      this.#told.add(url);
      if (!this.#ending.signal.aborted && !isTold)
        this.#options.log(
          `Rollouts of ${url} are left to other workers: ${MartingaleError.isInstance(error) ? error.message : error}`,
        );
      return !isRefused;
    }
  }

  async leave(withinMs: number): Promise<void> {
    const sessions = await Promise.allSettled(this.#sessions.values());
    await Promise.all(sessions.map((one) => one.status === 'fulfilled' && one.value.leave(withinMs)));
    await Promise.all(this.#ended);
  }

  #sessionOf(url: string, results: readonly FromWorker[] = []): Promise<WorkerSession> {
    const known = this.#sessions.get(url);
    if (known) return known;
    const opening = this.#open(url, results);
    this.#sessions.set(url, opening);
    opening.catch(() => this.#sessions.delete(url));
    return opening;
  }

  async #open(url: string, results: readonly FromWorker[]): Promise<WorkerSession> {
    const { key, name, log } = this.#options;
    const connection = new ProgramConnection(url, key);
    const session = await this.#runner.join(connection, this.#ending.signal).catch(async (error) => {
      await connection.close();
      throw error;
    });
    this.#told.delete(url);
    log(`${name} has joined ${url}.`);
    session.deliver(results);
    const ended = this.#follow(url, session, connection).finally(() => this.#ended.delete(ended));
    this.#ended.add(ended);
    return session;
  }

  /** Until the program closes or gives this worker up; results that it has not heard of then go there anew. */
  async #follow(url: string, session: WorkerSession, connection: ProgramConnection): Promise<void> {
    const end = await session.run().catch((error: unknown) => {
      this.#ending.abort(error);
      return 'left' as const;
    });
    this.#sessions.delete(url);
    await connection.close();
    if (end === 'closed') this.#options.log(`${url} needs no workers any more.`);
    const results = session.undelivered;
    if (end === 'lost' && results.length > 0 && !this.#ending.signal.aborted)
      await this.#sessionOf(url, results).catch(() => undefined);
  }
}
