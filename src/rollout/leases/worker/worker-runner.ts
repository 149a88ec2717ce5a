import type { Environment } from '../../../environment/index.ts';
import { martingaleVersion } from '../../../util/version.ts';
import type { Rollout, RolloutCounts } from '../../rollout.ts';
import { runWithinSpan } from '../../run-rollout.ts';
import { ThreadExecutor } from '../../threads/worker-threads.ts';
import { cloneFormat } from '../mailbox.ts';
import type { JoinRequest } from '../protocol.ts';
import type { ProgramConnection } from './connection.ts';
import { WorkerSession } from './worker-session.ts';

/** What a worker needs. */
export interface WorkerOptions {
  environment: Environment;
  /** The module that exports it, and under which name. */
  module: URL;
  exportName: string;
  /** The key that programs ask of their workers. */
  key: string | undefined;
  /** Name of the worker in logs and errors. */
  name: string;
  /** Most rollouts at a time. */
  concurrency: number;
  /** Number of worker threads for rollouts; 0 runs them in the main thread. */
  threads: number;
  /** How long rollouts in flight may take after the signal, in milliseconds; then others get them. */
  leaveWithinMs: number;
  /** Makes the worker leave. */
  signal: AbortSignal;
  /** Called with what happens, as sentences. */
  log: (line: string) => void;
}

/** Runs the rollouts of a program, and counts them. */
export class WorkerRunner {
  readonly counts: RolloutCounts = { dispatched: 0, completed: 0, failed: 0, cancelled: 0 };
  readonly #environment: Environment;
  readonly #hello: JoinRequest;
  readonly #threads: ThreadExecutor | undefined;
  readonly #log: (line: string) => void;
  /** Codes of failures that have been logged: each is logged once. */
  readonly #told = new Set<string>();

  /** @param files Hashes of the environment's files. */
  constructor(options: WorkerOptions, files: Record<string, string>) {
    const { environment, module, exportName, name, concurrency, threads } = options;
    this.#environment = environment;
    this.#log = options.log;
    this.#hello = {
      name,
      martingale: martingaleVersion,
      cloneFormat: cloneFormat(),
      environment: environment.name,
      files,
      concurrency,
    };
    if (threads > 0)
      this.#threads = new ThreadExecutor({ environment: module, exportName, threads, concurrency });
  }

  /** Joins a program. @throws WorkerError */
  async join(connection: ProgramConnection, signal: AbortSignal): Promise<WorkerSession> {
    const joined = await connection.join(this.#hello, signal);
    return new WorkerSession({
      connection,
      joined,
      environment: this.#environment,
      run: (task) => this.#threads?.runWithinSpan(task) ?? runWithinSpan(task),
      onEnded: (rollout) => this.#count(rollout),
    });
  }

  #count(rollout: Rollout): void {
    this.counts.dispatched++;
    this.counts[rollout.status]++;
    if (rollout.status !== 'failed') return;
    const { code, message } = rollout.failure;
    if (!this.#told.has(code)) this.#log(`A rollout failed with ${code}: ${message}`);
    this.#told.add(code);
  }

  async close(): Promise<void> {
    await this.#threads?.close();
  }
}
