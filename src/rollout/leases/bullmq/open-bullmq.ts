import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from 'bullmq';
import { WorkerError } from '../worker-error.ts';

/** What a job carries: where the lease is to be claimed, never the rollout. */
export interface LeaseJob {
  url: string;
  lease: string;
}

/** What is used of BullMQ's `Queue`. */
export interface LeaseQueue {
  addBulk(jobs: { name: string; data: LeaseJob; opts: object }[]): Promise<unknown>;
  remove(jobId: string): Promise<unknown>;
  waitUntilReady(): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

/** What is used of BullMQ's `Worker`. */
export interface LeaseQueueWorker {
  waitUntilReady(): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** Takes no more jobs; resolves when those it has are done. */
  close(): Promise<void>;
}

const kinds = new Map([
  ['redis:', 'redis'],
  ['rediss:', 'redis'],
  ['postgres:', 'postgres'],
  ['postgresql:', 'postgres'],
]);

/** Whether a connection is of Redis or PostgreSQL; undefined for others. */
export const kindOf = (connection: string): string | undefined =>
  kinds.get(URL.parse(connection)?.protocol ?? '');

/** The queue of an environment: workers with other files of it, or of another environment, do not see it. */
export const queueName = (environment: string, version: string): string =>
  `martingale-${environment.replaceAll(/[^\w.-]+/g, '_')}-${version}`;

/** @throws WorkerError (`package_missing`) */
async function loadBullmq(): Promise<typeof import('bullmq')> {
  return import('bullmq').catch((cause) => {
    const message = 'The package "bullmq" is missing: npm install bullmq';
    throw new WorkerError('package_missing', message, { cause });
  });
}

/** Makes BullMQ's tables where they are missing. */
const postgres = (connectionString: string) => ({ connectionString, migrate: true });

/** A queue in Redis or PostgreSQL. @throws WorkerError (`package_missing`) */
export async function openQueue(connection: string, name: string): Promise<LeaseQueue> {
  const { Queue, createPostgresBackend } = await loadBullmq();
  return kindOf(connection) === 'postgres'
    ? new Queue(name, { connection: postgres(connection) }, createPostgresBackend)
    : new Queue(name, { connection: { url: connection } });
}

/** How long a server may take when its queue or worker closes, in milliseconds. */
const closeMs = 5000;

/** Waits for a queue or worker that closes. One whose server is away may never say that it has. */
export async function closedSoon(closing: Promise<void> | undefined): Promise<void> {
  await Promise.race([closing?.catch(() => undefined), sleep(closeMs, undefined, { ref: false })]);
}

interface QueueWorkerOptions {
  concurrency: number;
  /** A worker of which nothing is heard for so long has lost its jobs. */
  lockMs: number;
  /** False if the job is for another worker. */
  run: (job: LeaseJob) => Promise<boolean>;
}

/** How long a job that is for another worker waits in the queue, in milliseconds. */
const putBackMs = 500;

/** A worker of such a queue. @throws WorkerError (`package_missing`) */
export async function openQueueWorker(
  connection: string,
  name: string,
  { concurrency, lockMs, run }: QueueWorkerOptions,
): Promise<LeaseQueueWorker> {
  const { DelayedError, Worker, createPostgresBackend } = await loadBullmq();
  const processor = async (job: Job<LeaseJob>, token?: string) => {
    if (await run(job.data)) return;
    await job.moveToDelayed(Date.now() + putBackMs, token);
    throw new DelayedError();
  };
  const settings = {
    concurrency,
    lockDuration: lockMs,
    stalledInterval: lockMs / 2,
    // The lease decides whether it is still to be had, so its job may be tried often.
    maxStalledCount: 1000,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  };
  return kindOf(connection) === 'postgres'
    ? new Worker(name, processor, { ...settings, connection: postgres(connection) }, createPostgresBackend)
    : new Worker(name, processor, { ...settings, connection: { url: connection } });
}
