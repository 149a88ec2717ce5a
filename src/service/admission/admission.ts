import { ServiceError } from '../errors.ts';
import type { Store } from '../store/store.ts';
import type { ServiceLimits } from './limits.ts';
import { type HeldPlaces, mayTake, Places, shareOfFree } from './places.ts';

/** A limit of the service is reached; the client should retry later. Status 429. */
export class BusyError extends ServiceError {
  /** When there should be room, in seconds from now: the `Retry-After` header. */
  readonly retryAfterSeconds: number;

  constructor(code: string, message: string, retryAfterSeconds: number) {
    super(429, code, `${message} Ask again in ${retryAfterSeconds} s.`);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** Accounting for a request body that is being received. */
export interface AdmittedBody {
  /** Checks whether `total` bytes would fit now, without reserving them. @throws BusyError */
  expect(total: number): void;
  /** Reports `total` bytes received so far and reserves them. @throws BusyError */
  bytes(total: number): void;
  /** Frees the reserved bytes. */
  release(): void;
}

/** Accounting for a chat request in flight. */
export interface AdmittedChat extends AdmittedBody {
  /** Reserves slots for all replies of the request (one is reserved already). @throws BusyError */
  replies(count: number): void;
  /** Frees the slots and bytes, once the request is answered. */
  release(): void;
}

/** The current load, as health reports show it. */
export interface LoadFigures {
  replies: number;
  /** Milliseconds since the oldest unanswered chat request arrived. */
  oldestMs: number;
  bodyBytes: number;
  eventStreams: number;
  /** Requests refused for lack of room since the start. */
  refused: number;
}

/** A requested training job that is not stored yet. */
export interface ComingJob {
  modelId: string;
  /** The tenant that the job counts for. */
  tenant: string;
}

type JobCounts = Pick<Store, 'countUnfinishedJobs' | 'countJobsEnded'>;

/**
 * Decides whether a request fits into the limits before its body is read, and estimates when there will be
 * room.
 */
export class Admission {
  readonly limits: ServiceLimits;
  readonly #replies: Places;
  readonly #bytes: Places;
  readonly #streams: Places;
  readonly #fetches: Places;
  /** Jobs whose requests are being read and are not stored yet. */
  readonly #coming = new Set<ComingJob>();
  #otherwiseRefused = 0;

  constructor(limits: ServiceLimits) {
    this.limits = limits;
    this.#replies = new Places(limits.replies);
    this.#bytes = new Places(limits.bodyBytes);
    this.#streams = new Places(limits.eventStreams);
    this.#fetches = new Places(limits.dataFetches);
  }

  get figures(): LoadFigures {
    return {
      replies: this.#replies.taken,
      oldestMs: this.#replies.oldestMs,
      bodyBytes: this.#bytes.taken,
      eventStreams: this.#streams.taken,
      refused: [this.#replies, this.#bytes, this.#streams, this.#fetches].reduce(
        (sum, { refused }) => sum + refused,
        this.#otherwiseRefused,
      ),
    };
  }

  /** Admits a chat request and reserves a slot for one reply. @throws BusyError */
  chat(tenant: string): AdmittedChat {
    const place = this.#replies.take(tenant, 1);
    if (!place) throw this.#noReplies(tenant, 1);
    const body = this.body(tenant);
    return {
      ...body,
      replies: (count) => {
        if (count > this.limits.replies) throw neverRoom(count, this.limits.replies);
        if (count > 1 && !place.add(count - 1)) throw this.#noReplies(tenant, count);
      },
      release: () => {
        body.release();
        place.release();
      },
    };
  }

  /** Admits a body; bytes are reserved as they arrive. */
  body(tenant: string): AdmittedBody {
    let held: HeldPlaces | null = null;
    let counted = 0;
    return {
      expect: (total) => {
        if (!this.#bytes.hasRoom(tenant, total)) throw this.#noBytes(tenant, total);
      },
      bytes: (total) => {
        const more = total - counted;
        if (more <= 0) return;
        counted = total;
        if (held) {
          if (!held.add(more)) throw this.#noBytes(tenant, more);
          return;
        }
        held = this.#bytes.take(tenant, more);
        if (!held) throw this.#noBytes(tenant, more);
      },
      release: () => held?.release(),
    };
  }

  /** Admits an event stream. @throws BusyError */
  eventStream(tenant: string): HeldPlaces {
    const place = this.#streams.take(tenant, 1);
    if (place) return place;
    throw new BusyError(
      'too_many_event_streams',
      `As many event streams are followed as this service serves at once (${this.limits.eventStreams}, limits.eventStreams); end those that are not needed, or ask for the events without a stream.`,
      this.#streams.retryAfterSeconds(tenant, 1),
    );
  }

  /** Admits a fetch of training data. @throws BusyError */
  dataFetch(tenant: string): HeldPlaces {
    const place = this.#fetches.take(tenant, 1);
    if (place) return place;
    throw new BusyError(
      'too_many_data_fetches',
      `As much training data is being fetched as this service fetches at once (${this.limits.dataFetches}, limits.dataFetches; one key holds at most 16 times what is free); ask for fewer jobs at a time, or upload the data.`,
      this.#fetches.retryAfterSeconds(tenant, 1),
    );
  }

  /** Reserves a slot for a job until it is stored or refused; call `release` then. @throws BusyError */
  async job(store: JobCounts, coming: ComingJob): Promise<{ release: () => void }> {
    const others = [...this.#coming];
    const kept = { ...coming };
    this.#coming.add(kept);
    const release = () => void this.#coming.delete(kept);
    // `others` was copied before this query, so a job stored meanwhile is counted twice rather than not at
    // all.
    const stored = await store.countUnfinishedJobs(coming).catch((error: unknown) => {
      release();
      throw error;
    });
    const complaint = this.#noJob({
      all: stored.all + others.length,
      ofModel: stored.ofModel + others.filter(({ modelId }) => modelId === coming.modelId).length,
      ofTenant: stored.ofTenant + others.filter(({ tenant }) => tenant === coming.tenant).length,
    });
    if (complaint === null) return { release };
    release();
    this.#otherwiseRefused++;
    const endedInMinute = await store.countJobsEnded(new Date(Date.now() - 60_000).toISOString());
    throw new BusyError(
      'too_many_jobs',
      `${complaint}; wait for one to end, or cancel one.`,
      Math.ceil(60 / Math.max(1, endedInMinute)),
    );
  }

  /** The error for a request on a connection beyond the limit. */
  tooManyConnections(): BusyError {
    this.#otherwiseRefused++;
    return new BusyError(
      'too_many_connections',
      `As many connections are open as this service keeps (${this.limits.connections}, limits.connections); close those that are idle.`,
      this.#replies.retryAfterSeconds('', 1),
    );
  }

  #noJob({ all, ofModel, ofTenant }: { all: number; ofModel: number; ofTenant: number }): string | null {
    const { jobs, jobsOfModel } = this.limits;
    if (all >= jobs)
      return `${all} training jobs have not ended, and this service takes ${jobs} (limits.jobs)`;
    if (ofModel >= jobsOfModel)
      return `${ofModel} training jobs of this model have not ended, and this service takes ${jobsOfModel} (limits.jobsOfModel)`;
    if (mayTake(1, { held: ofTenant, free: jobs - all })) return null;
    return `${ofTenant} training jobs of this key have not ended, and one key has at most ${shareOfFree} times as many as are free of the ${jobs} of this service (limits.jobs)`;
  }

  #noReplies(tenant: string, count: number): BusyError {
    return new BusyError(
      'too_many_requests',
      `As many replies are asked for as this service takes in hand at once (${this.limits.replies}, limits.replies; one key holds at most 16 times what is free); send fewer at a time.`,
      this.#replies.retryAfterSeconds(tenant, count),
    );
  }

  #noBytes(tenant: string, bytes: number): BusyError {
    return new BusyError(
      'too_many_bytes',
      `As many bytes of requests are in hand as this service holds (${this.limits.bodyBytes}, limits.bodyBytes); send fewer or smaller requests at a time.`,
      this.#bytes.retryAfterSeconds(tenant, bytes),
    );
  }
}

function neverRoom(count: number, limit: number): ServiceError {
  return new ServiceError(
    422,
    'more_than_the_limit',
    `n is ${count}, and this service takes at most ${limit} replies in hand at once (limits.replies); ask for fewer.`,
  );
}
