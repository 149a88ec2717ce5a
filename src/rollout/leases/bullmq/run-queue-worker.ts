import { MartingaleError } from '../../../contract/index.ts';
import type { RolloutCounts } from '../../rollout.ts';
import { environmentFiles, versionOf } from '../environment-version.ts';
import type { FromWorker } from '../wire.ts';
import { ProgramConnection } from '../worker/connection.ts';
import { type WorkerOptions, WorkerRunner } from '../worker/worker-runner.ts';
import type { WorkerSession } from '../worker/worker-session.ts';
import { WorkerError } from '../worker-error.ts';
import { openQueueWorker, queueName } from './open-bullmq.ts';

export interface RunQueueWorkerOptions extends WorkerOptions {
  /** URL of Redis or PostgreSQL. */
  connection: string;
}

/**
 * After so long without a sign of a worker, BullMQ gives its jobs to others, in milliseconds. Short, because a job that is
 * given too early does no harm: its lease is not to be had.
 */
const lockMs = 8000;

/**
 * Runs rollouts of the programs that announce them in a BullMQ queue with `bullmq()`, until the signal aborts.
 * @returns the number of rollouts by how they ended.
 * @throws WorkerError `worker_refused`: a program does not take this worker; `package_missing`.
 */
export async function runQueueWorker(options: RunQueueWorkerOptions): Promise<RolloutCounts> {
  const { module, environment, connection, concurrency, name, signal, log, leaveWithinMs } = options;
  const files = await environmentFiles(module);
  const runner = new WorkerRunner(options, files, { claims: true });
  const ending = new AbortController();
  const programs = new Programs(runner, options, ending);
  const queue = queueName(environment.name, versionOf(files));
  const run = ({ url, lease }: { url: string; lease: string }) => programs.run(url, lease);
  const worker = await openQueueWorker(connection, queue, { concurrency, lockMs, run });
  let told = '';
  worker.on('error', (error) => {
    if (String(error) !== told) log(`The queue: ${String(error)}`);
    told = String(error);
  });
  const onAbort = () => ending.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  log(`${name} takes up to ${concurrency} rollouts of "${environment.name}" from the queue ${queue}.`);
  await new Promise<void>((resolve) => {
    if (ending.signal.aborted) resolve();
    else ending.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  signal.removeEventListener('abort', onAbort);
  const closed = worker.close();
  await programs.leave(leaveWithinMs);
  await closed.catch(() => undefined);
  await runner.close();
  if (ending.signal.reason instanceof WorkerError) throw ending.signal.reason;
  return runner.counts;
}

/** The programs that this worker has joined, by their address. */
class Programs {
  readonly #runner: WorkerRunner;
  readonly #options: RunQueueWorkerOptions;
  readonly #ending: AbortController;
  readonly #sessions = new Map<string, Promise<WorkerSession>>();
  readonly #ended = new Set<Promise<void>>();

  constructor(runner: WorkerRunner, options: RunQueueWorkerOptions, ending: AbortController) {
    this.#runner = runner;
    this.#options = options;
    this.#ending = ending;
  }

  /** Runs a lease of a program, if it is still to be had. A program that is gone needs it no more. Never throws. */
  async run(url: string, lease: string): Promise<void> {
    try {
      const session = await this.#sessionOf(url);
      await session.claim(lease);
    } catch (error) {
      if (error instanceof WorkerError && error.code === 'worker_refused') this.#ending.abort(error);
      else if (!this.#ending.signal.aborted)
        this.#options.log(
          `A rollout of ${url} is left: ${MartingaleError.isInstance(error) ? error.message : error}`,
        );
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
