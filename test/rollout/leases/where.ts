import { threadId } from 'node:worker_threads';

/** Process and thread in which a rollout runs. */
export const describeWorker = (): string => `pid ${process.pid} thread ${threadId}`;
