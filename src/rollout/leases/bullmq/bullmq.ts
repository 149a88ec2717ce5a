import { withDeadline } from '../../../util/deadline.ts';
import { invalidOption } from '../../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../../util/option-names.ts';
import { versionOf } from '../environment-version.ts';
import type { Lease } from '../lease.ts';
import type { Distributor, LeaseHub } from '../lease-hub.ts';
import { type LeaseExecutor, type LeasesOptions, leasesNames, openLeases } from '../leases.ts';
import { WorkerError } from '../worker-error.ts';
import type { WorkerEvent } from '../worker-event.ts';
import { closedSoon, kindOf, type LeaseQueue, openQueue, queueName } from './open-bullmq.ts';

export interface BullmqOptions extends LeasesOptions {
  /** URL of Redis (`redis://`, `rediss://`) or PostgreSQL (`postgres://`). */
  connection: string;
  /** Address of this program as workers reach it, such as http://10.0.0.4:7410. Default: `host` and `port`. */
  url?: string;
}

const bullmqNames = { ...leasesNames, connection: true, url: true } satisfies OptionNames<BullmqOptions>;

/** How long the queue's server may take to answer at the start, in milliseconds. */
const connectMs = 10_000;

/**
 * Runs rollouts on other machines, as `leases` does, whose workers learn from a BullMQ queue which rollouts wait: for
 * those who have Redis or PostgreSQL already, and workers that serve one program after the other.
 *
 *     const executor = await bullmq({ environment: new URL('./environment.ts', import.meta.url), connection, url, ... });
 *
 *     npx martingale worker environment.ts --queue redis://10.0.0.3:6379 --key ...
 *
 * Jobs carry where a rollout is to be had, never the rollout: workers fetch it from this program and bring the result
 * here. What holds for leases holds here too, also when the queue loses its jobs. Needs the package `bullmq`, and `pg` for
 * PostgreSQL or `ioredis` for Redis.
 *
 * @throws as `leases`; WorkerError `package_missing`, or `queue_unreachable` after 10 s.
 */
export async function bullmq(options: BullmqOptions): Promise<LeaseExecutor> {
  checkOptionNames('bullmq()', options, bullmqNames);
  const { connection, url, ...leasesOptions } = options;
  const code = 'invalid_rollout_option';
  // The value may have a password.
  if (kindOf(connection) === undefined)
    throw invalidOption(code, 'connection', '...', 'Pass a URL that begins with redis: or postgres:.');
  if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw invalidOption(code, 'url', url, 'Pass a URL such as http://10.0.0.4:7410.');
  if (url === undefined && ['0.0.0.0', '::'].includes(leasesOptions.host ?? ''))
    throw invalidOption(code, 'url', url, 'Pass the address of this program as workers reach it.');
  let close = async () => {};
  const opened = await openLeases(leasesOptions, () => close());
  const { executor, hub, name, files, leaseMs, onEvent } = opened;
  try {
    const named = queueName(name, versionOf(files));
    const queue = await readyQueue(connection, named);
    const announcer = new Announcer({ hub, queue, url: url ?? executor.url, everyMs: leaseMs, onEvent });
    const howToStart = `Start one with the same files, martingale worker <file> --queue <url>; it must print the queue ${named}, have the same key, and reach ${url ?? executor.url}.`;
    hub.distributeBy(announcer, { howToStart });
    close = () => announcer.close();
    return executor;
  } catch (error) {
    await executor.close();
    throw error;
  }
}

async function readyQueue(connection: string, name: string): Promise<LeaseQueue> {
  const queue = await openQueue(connection, name);
  const unreachable = (because: string) =>
    new WorkerError('queue_unreachable', `The server of the queue cannot be reached: ${because}`);
  let last = `no answer in ${connectMs} ms`;
  queue.on('error', (error) => {
    last = String(error);
  });
  try {
    await withDeadline({ timeoutMs: connectMs, signal: undefined, timedOut: () => unreachable(last) }, () =>
      queue.waitUntilReady(),
    );
  } catch (error) {
    await closedSoon(queue.close());
    throw error instanceof WorkerError ? error : unreachable(String(error));
  }
  return queue;
}

interface AnnouncerOptions {
  hub: LeaseHub;
  queue: LeaseQueue;
  /** Where leases are claimed. */
  url: string;
  /** Time after which leases are announced again, in milliseconds. */
  everyMs: number;
  onEvent: (event: WorkerEvent) => void;
}

/** Keeps a job in the queue for each lease that waits. */
class Announcer implements Distributor {
  readonly #options: AnnouncerOptions;
  /** Leases to announce in the next tick, all at once. */
  #next = new Set<Lease>();
  readonly #look: NodeJS.Timeout;
  #isAway = false;
  #isRestoring = false;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    options.queue.on('error', (error) => this.#away(error));
    this.#look = setInterval(() => void this.#restore(), options.everyMs).unref();
  }

  announce(lease: Lease): void {
    if (this.#next.size === 0) setImmediate(() => void this.#addNext());
    this.#next.add(lease);
  }

  withdraw(lease: Lease): void {
    // Whoever takes a job that could not be removed hears that its lease has ended.
    if (!this.#next.delete(lease)) this.#options.queue.remove(jobId(lease)).catch(() => undefined);
  }

  async close(): Promise<void> {
    clearInterval(this.#look);
    await closedSoon(this.#options.queue.close());
  }

  async #addNext(): Promise<void> {
    const leases = [...this.#next];
    this.#next.clear();
    await this.#add(leases);
  }

  async #add(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    const { queue, url } = this.#options;
    const jobs = leases.map((lease) => ({
      name: 'rollout',
      data: { url, lease: lease.id },
      opts: { jobId: jobId(lease), removeOnComplete: true, removeOnFail: true, ...priorityOf(lease) },
    }));
    try {
      await queue.addBulk(jobs);
      this.#isAway = false;
    } catch (error) {
      this.#away(error);
    }
  }

  /** The queue may have lost jobs: announces those again that come next. A job that is there is not doubled. */
  async #restore(): Promise<void> {
    if (this.#isRestoring) return;
    this.#isRestoring = true;
    await this.#add(this.#options.hub.waiting.slice(0, restored));
    this.#isRestoring = false;
  }

  #away(error: unknown): void {
    if (this.#isAway) return;
    this.#isAway = true;
    const message = `The server of the queue is away, and no worker hears of rollouts until it is back: ${String(error)}`;
    this.#options.onEvent({ type: 'queue_away', worker: '', message });
  }
}

/** How many leases are announced again at a time. */
const restored = 1000;

/** A lease that is given again has another job: the first may still be there. */
const jobId = ({ id, epoch }: Lease): string => `${id}-${epoch}`;

/** BullMQ's largest priority; jobs with smaller ones go first, and those without before them. */
const maxPriority = 2 ** 21;

const priorityOf = ({ options: { order } }: Lease): { priority?: number } =>
  Number.isFinite(order) ? { priority: Math.min(Math.max(1, Math.floor(order) + 1), maxPriority) } : {};
