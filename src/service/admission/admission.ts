import { ServiceError } from '../errors.ts';
import type { Store } from '../store/store.ts';
import type { ServiceLimits } from './service-limits.ts';
import { BusyError, type HeldSlots, mayTake, shareOfFree, TenantSlots } from './tenant-slots.ts';

/** Accounting for a request body that is being received. */
interface AdmittedBody {
  /** Checks whether `total` bytes would fit now, without reserving them. @throws BusyError */
  expect(total: number): void;
  /** Reports `total` bytes received so far and reserves them. @throws BusyError */
  bytes(total: number): void;
  /** Frees the reserved bytes. */
  release(): void;
}

/** Accounting for a chat request in flight. `release` frees its slots and bytes, once it is answered. */
interface AdmittedChat extends AdmittedBody {
  /** Reserves slots for all replies of the request (one is reserved already). @throws BusyError */
  replies(count: number): void;
}

/** A requested training job that is not stored yet. */
interface PendingJob {
  modelId: string;
  /** The tenant that the job counts for. */
  tenant: string;
}

type JobCounts = Pick<Store, 'countUnfinishedJobs' | 'countJobsEnded'>;

/**
 * Decides whether a request fits into the limits before its body is read, and estimates when the next one
 * will.
 */
export class Admission {
  readonly limits: ServiceLimits;
  /** Replies in flight. */
  readonly replies: TenantSlots;
  readonly bodyBytes: TenantSlots;
  readonly eventStreams: TenantSlots;
  readonly dataFetches: TenantSlots;
  /** Jobs whose requests are being read and are not stored yet. */
  readonly #pending = new Set<PendingJob>();
  #refusedElsewhere = 0;

  constructor(limits: ServiceLimits) {
    this.limits = limits;
    const share = `one key may hold at most ${shareOfFree} times what is free`;
    this.replies = new TenantSlots({
      limit: limits.replies,
      code: 'too_many_requests',
      message: `This service has ${limits.replies} replies in flight, its limit (limits.replies; ${share}). Send fewer requests at a time.`,
    });
    this.bodyBytes = new TenantSlots({
      limit: limits.bodyBytes,
      code: 'too_many_bytes',
      message: `Request bodies in flight have reached the limit of ${limits.bodyBytes} bytes (limits.bodyBytes). Send fewer or smaller requests at a time.`,
    });
    this.eventStreams = new TenantSlots({
      limit: limits.eventStreams,
      code: 'too_many_event_streams',
      message: `All ${limits.eventStreams} event streams of this service are in use (limits.eventStreams). Close unneeded streams, or request events without a stream.`,
    });
    this.dataFetches = new TenantSlots({
      limit: limits.dataFetches,
      code: 'too_many_data_fetches',
      message: `All ${limits.dataFetches} fetches of training data are in use (limits.dataFetches; ${share}). Create fewer jobs at a time, or upload the data.`,
    });
  }

  /** Requests refused since the start because a limit was reached. */
  get refused(): number {
    const { replies, bodyBytes, eventStreams, dataFetches } = this;
    return [replies, bodyBytes, eventStreams, dataFetches].reduce(
      (sum, { refused }) => sum + refused,
      this.#refusedElsewhere,
    );
  }

  /** Admits a chat request and reserves a slot for one reply. @throws BusyError */
  chat(tenant: string): AdmittedChat {
    const slots = this.replies.take(tenant);
    const body = this.body(tenant);
    const limit = this.limits.replies;
    return {
      ...body,
      replies: (count) => {
        if (count > limit)
          throw new ServiceError(
            422,
            'more_than_the_limit',
            `n is ${count}, but this service allows at most ${limit} replies in flight (limits.replies). Request fewer.`,
          );
        if (count > 1) slots.add(count - 1);
      },
      release: () => {
        body.release();
        slots.release();
      },
    };
  }

  /** Admits a body; bytes are reserved as they arrive. */
  body(tenant: string): AdmittedBody {
    let slots: HeldSlots | undefined;
    let counted = 0;
    return {
      expect: (total) => this.bodyBytes.check(tenant, total),
      bytes: (total) => {
        const more = total - counted;
        if (more <= 0) return;
        counted = total;
        if (slots) slots.add(more);
        else slots = this.bodyBytes.take(tenant, more);
      },
      release: () => slots?.release(),
    };
  }

  /** Reserves a slot for a job until it is stored or refused; call `release` then. @throws BusyError */
  async job(store: JobCounts, job: PendingJob): Promise<{ release: () => void }> {
    const others = [...this.#pending];
    const pending = { ...job };
    this.#pending.add(pending);
    const release = () => void this.#pending.delete(pending);
    // `others` was copied before this query, so a job stored meanwhile is counted twice rather than not at
    // all.
    const stored = await store.countUnfinishedJobs(job).catch((error: unknown) => {
      release();
      throw error;
    });
    const problem = this.#exceededJobLimit({
      all: stored.all + others.length,
      ofModel: stored.ofModel + others.filter(({ modelId }) => modelId === job.modelId).length,
      ofTenant: stored.ofTenant + others.filter(({ tenant }) => tenant === job.tenant).length,
    });
    if (problem === null) return { release };
    release();
    this.#refusedElsewhere++;
    const endedInMinute = await store.countJobsEnded(new Date(Date.now() - 60_000).toISOString());
    throw new BusyError(
      'too_many_jobs',
      `${problem}. Wait for one to end, or cancel one.`,
      Math.ceil(60 / Math.max(1, endedInMinute)),
    );
  }

  /**
   * Refuses a group when too many wait for a job or log to name them. Groups that are being read do not count: their
   * bytes do. @throws BusyError
   */
  async group(store: Pick<Store, 'countGroups'>, tenant: string): Promise<void> {
    const { groups } = this.limits;
    const { all, ofTenant } = await store.countGroups(tenant);
    if (mayTake(1, { held: ofTenant, free: groups - all })) return;
    this.#refusedElsewhere++;
    throw new BusyError(
      'too_many_groups',
      `${all} stored groups wait for a job or log to name them, ${ofTenant} of them this key's; the limit is ${groups} (limits.groups; one key may hold at most ${shareOfFree} times what is free). Request a job or a log with them.`,
      60,
    );
  }

  /** The error for a request on a connection beyond the limit. */
  tooManyConnections(): BusyError {
    this.#refusedElsewhere++;
    return new BusyError(
      'too_many_connections',
      `This service has reached its limit of ${this.limits.connections} connections (limits.connections). Close idle ones.`,
      this.replies.retryAfterSeconds('', 1),
    );
  }

  #exceededJobLimit({
    all,
    ofModel,
    ofTenant,
  }: {
    all: number;
    ofModel: number;
    ofTenant: number;
  }): string | null {
    const { jobs, jobsOfModel } = this.limits;
    if (all >= jobs) return `There are ${all} unfinished training jobs; the limit is ${jobs} (limits.jobs)`;
    if (ofModel >= jobsOfModel)
      return `The model has ${ofModel} unfinished training jobs; the limit is ${jobsOfModel} (limits.jobsOfModel)`;
    if (mayTake(1, { held: ofTenant, free: jobs - all })) return null;
    return `The key has ${ofTenant} unfinished training jobs; one key may have at most ${shareOfFree} times as many as are free of the ${jobs} (limits.jobs)`;
  }
}
