import { MartingaleError } from '../../contract/index.ts';

/**
 * - `program_away`: the program cannot be reached, or answers nonsense; it may come back.
 * - `worker_unknown`: the program has given this worker up.
 * - `worker_refused`: the program does not take this worker, and will not.
 */
type WorkerErrorCode = 'program_away' | 'worker_unknown' | 'worker_refused';

/** What stops a worker of `leases`. */
export class WorkerError extends MartingaleError<WorkerErrorCode> {}
