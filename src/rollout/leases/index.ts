export type { LeaseStats, WorkerEvent } from './lease-hub.ts';
export { type LeaseExecutor, type LeasesOptions, leases } from './leases.ts';
export { WorkerError, type WorkerErrorCode } from './worker/connection.ts';
export { type RunWorkerOptions, runWorker } from './worker/run-worker.ts';
