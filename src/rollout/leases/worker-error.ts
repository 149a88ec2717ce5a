import { MartingaleError } from '../../contract/index.ts';

/**
 * - `program_away`: the program cannot be reached, or answers nonsense; it may come back.
 * - `worker_unknown`: the program has given this worker up.
 * - `worker_refused`: the program does not take this worker, and will not.
 * - `no_program`: the worker was told neither of a program nor of a queue.
 * - `queue_unreachable`: the server of the queue did not answer in time.
 * - `package_missing`: an optional package is not installed.
 */
type WorkerErrorCode =
  | 'program_away'
  | 'worker_unknown'
  | 'worker_refused'
  | 'no_program'
  | 'queue_unreachable'
  | 'package_missing';

/** What stops a worker of `leases` or `bullmq`, or the queue of the latter. */
export class WorkerError extends MartingaleError<WorkerErrorCode> {}
