import { setTimeout as sleep } from 'node:timers/promises';
import type { Environment } from '../../../environment/index.ts';
import { martingaleVersion } from '../../../util/version.ts';
import type { RolloutCounts } from '../../rollout.ts';
import { runWithinSpan } from '../../run-rollout.ts';
import { ThreadExecutor } from '../../threads/worker-threads.ts';
import { environmentFiles } from '../environment-version.ts';
import { cloneFormat } from '../mailbox.ts';
import type { FromWorker, JoinRequest } from '../wire.ts';
import { ProgramConnection, WorkerError } from './connection.ts';
import { type SessionEnd, WorkerSession } from './worker-session.ts';

export interface RunWorkerOptions {
  environment: Environment;
  /** The module that exports it, and under which name. */
  module: URL;
  exportName: string;
  /** Address of the program's `leases()`. */
  url: string;
  key: string | undefined;
  /** For people. */
  name: string;
  /** Most rollouts at a time. */
  concurrency: number;
  /** Number of worker threads for rollouts; 0 runs them in the main thread. */
  threads: number;
  /** How long to wait for a program that cannot be reached, in milliseconds. */
  waitMs: number;
  /** How long rollouts in flight may take after the signal, in milliseconds; then others get them. */
  leaveWithinMs: number;
  /** Makes the worker leave. */
  signal: AbortSignal;
  /** Called with what happens, as sentences. */
  log: (line: string) => void;
}

/** Pause between attempts to join, in milliseconds. */
const joinAgainMs = 1000;

/**
 * Runs rollouts of a program that uses `leases()`, until it needs no workers any more or the signal aborts.
 * @returns the number of rollouts by how they ended.
 * @throws WorkerError: `worker_refused`, or `program_away` after `waitMs`.
 */
export async function runWorker(options: RunWorkerOptions): Promise<RolloutCounts> {
  const { environment, module, exportName, url, key, name, concurrency, threads, signal, log } = options;
  const files = await environmentFiles(module);
  const counts: RolloutCounts = { dispatched: 0, completed: 0, failed: 0, cancelled: 0 };
  const executor =
    threads > 0 ? new ThreadExecutor({ environment: module, exportName, threads, concurrency }) : undefined;
  const run: typeof runWithinSpan = (task) => (executor ? executor.runWithinSpan(task) : runWithinSpan(task));
  const connection = new ProgramConnection(url, key);
  const hello: JoinRequest = {
    name,
    martingale: martingaleVersion,
    cloneFormat: cloneFormat(),
    environment: environment.name,
    files,
    concurrency,
  };
  let results: FromWorker[] = [];
  try {
    for (let end: SessionEnd | undefined; end !== 'left' && end !== 'closed'; ) {
      const joined = await join(connection, hello, options);
      if (!joined) break;
      log(`${name} has joined ${url}: it runs ${concurrency} rollouts of "${environment.name}" at a time.`);
      const session = new WorkerSession({
        connection,
        joined,
        environment,
        run,
        onEnded: (status) => {
          counts.dispatched++;
          counts[status]++;
        },
      });
      session.deliver(results);
      const leave = () => void session.leave(options.leaveWithinMs);
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
      end = await session.run();
      signal.removeEventListener('abort', leave);
      results = session.undelivered;
      if (end === 'lost')
        log(`${url} was not heard of in time, or has given this worker up: it joins again.`);
      if (end === 'closed') log(`${url} needs no workers any more.`);
    }
  } finally {
    await executor?.close();
    await connection.close();
  }
  return counts;
}

/** Undefined if the worker is to leave before it has joined. */
async function join(
  connection: ProgramConnection,
  hello: JoinRequest,
  { url, waitMs, signal, log }: RunWorkerOptions,
) {
  const startedAt = performance.now();
  let isTold = false;
  for (;;) {
    if (signal.aborted) return undefined;
    try {
      return await connection.join(hello, signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      const isAway = error instanceof WorkerError && error.code !== 'worker_refused';
      if (!isAway || performance.now() - startedAt > waitMs) throw error;
      if (!isTold) log(`${url} cannot be reached yet: trying for ${Math.round(waitMs / 1000)} s.`);
      isTold = true;
      await sleep(joinAgainMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
