export { type BullmqOptions, bullmq } from './bullmq/bullmq.ts';
export { kindOf } from './bullmq/open-bullmq.ts';
export { runQueueWorker } from './bullmq/run-queue-worker.ts';
export { type LeaseExecutor, type LeasesOptions, leases } from './leases.ts';
export { runWorker } from './worker/run-worker.ts';
export type { WorkerOptions } from './worker/worker-runner.ts';
export { WorkerError } from './worker-error.ts';
export type { LeaseStats, WorkerEvent } from './worker-event.ts';
