export { type LeaseExecutor, type LeasesOptions, leases } from './leases.ts';
export { runWorker } from './worker/run-worker.ts';
export type { LeaseStats, WorkerEvent } from './worker-event.ts';
