import { setTimeout as sleep } from 'node:timers/promises';
import type { RolloutCounts } from '../../rollout.ts';
import { environmentFiles } from '../environment-version.ts';
import type { FromWorker } from '../protocol.ts';
import { WorkerError } from '../worker-error.ts';
import { ProgramConnection } from './connection.ts';
import { type WorkerOptions, WorkerRunner } from './worker-runner.ts';
import type { SessionEnd, WorkerSession } from './worker-session.ts';

interface RunWorkerOptions extends WorkerOptions {
  /** Address of the program's `leases()`. */
  url: string;
  /** How long to wait for a program that cannot be reached, in milliseconds. */
  waitMs: number;
}

/** Pause between attempts to join, in milliseconds. */
const joinAgainMs = 1000;

/**
 * Runs rollouts of a program that uses `leases()`, until it needs no workers any more or the signal aborts.
 * @returns the number of rollouts by how they ended.
 * @throws WorkerError: `worker_refused`, or `program_away` after `waitMs`.
 */
export async function runWorker(options: RunWorkerOptions): Promise<RolloutCounts> {
  const { environment, module, url, key, name, concurrency, signal, log } = options;
  const runner = new WorkerRunner(options, await environmentFiles(module));
  const connection = new ProgramConnection(url, key);
  let results: FromWorker[] = [];
  try {
    for (let end: SessionEnd | undefined; end !== 'left' && end !== 'closed'; ) {
      const session = await join(runner, connection, options);
      if (!session) break;
      log(`${name} has joined ${url}: it runs ${concurrency} rollouts of "${environment.name}" at a time.`);
      session.deliver(results);
      const leave = () => void session.leave(options.leaveWithinMs);
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
      end = await session.run();
      signal.removeEventListener('abort', leave);
      results = session.undelivered;
      if (end === 'lost')
        log(
          `${url} and this worker have not heard of each other in time: others get its rollouts. If rollouts block the thread for long, use --threads.`,
        );
      if (end === 'closed') log(`${url} needs no workers any more.`);
    }
  } finally {
    await runner.close();
    await connection.close();
  }
  return runner.counts;
}

/** Undefined if the worker is to leave before it has joined. */
async function join(
  runner: WorkerRunner,
  connection: ProgramConnection,
  { waitMs, signal, log }: RunWorkerOptions,
): Promise<WorkerSession | undefined> {
  const startedAt = performance.now();
  let isTold = false;
  for (;;) {
    if (signal.aborted) return undefined;
    try {
      return await runner.join(connection, signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof WorkerError) || error.code === 'worker_refused') throw error;
      if (performance.now() - startedAt > waitMs) throw error;
      if (!isTold) log(`${error.message}. Trying for ${Math.round(waitMs / 1000)} s.`);
      isTold = true;
      await sleep(joinAgainMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
