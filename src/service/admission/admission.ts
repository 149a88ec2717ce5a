import { ServiceError } from '../errors.ts';
import type { Store } from '../store/store.ts';
import { BusyError } from './busy-error.ts';
import type { ServiceLimits } from './limits.ts';
import { type HeldPlaces, Places } from './places.ts';

/** A chat request in hand. */
export interface AdmittedChat {
  /** Says how many bytes of its body have come, or will. @throws BusyError */
  bytes(total: number): void;
  /** Says how many replies it is for. @throws BusyError */
  replies(count: number): void;
  /** It has been answered. */
  release(): void;
}

/** What is in hand. */
export interface LoadFigures {
  replies: number;
  /** Milliseconds since the oldest chat request that has not been answered came. */
  oldestMs: number;
  bodyBytes: number;
  eventStreams: number;
  /** Requests refused since the start because there was no room. */
  refused: number;
}

/** Decides whether there is room for what comes, before it takes any, and says when there will be. */
export class Admission {
  readonly limits: ServiceLimits;
  readonly #replies: Places;
  readonly #bytes: Places;
  readonly #streams: Places;
  #otherwiseRefused = 0;

  constructor(limits: ServiceLimits) {
    this.limits = limits;
    this.#replies = new Places(limits.replies);
    this.#bytes = new Places(limits.bodyBytes);
    this.#streams = new Places(limits.eventStreams);
  }

  get figures(): LoadFigures {
    return {
      replies: this.#replies.taken,
      oldestMs: this.#replies.oldestMs,
      bodyBytes: this.#bytes.taken,
      eventStreams: this.#streams.taken,
      refused: this.#otherwiseRefused + this.#replies.refused + this.#bytes.refused + this.#streams.refused,
    };
  }

  /** Takes a chat request in hand; `owner` names whom its place counts for. @throws BusyError */
  chat(owner: string): AdmittedChat {
    const place = this.#replies.take(owner, 1);
    if (!place) throw this.#noReplies(owner, 1);
    const body = this.body(owner);
    return {
      bytes: body.bytes,
      replies: (count) => {
        if (count > this.limits.replies) throw neverRoom(count, this.limits.replies);
        if (count > 1 && !place.add(count - 1)) throw this.#noReplies(owner, count);
      },
      release: () => {
        body.release();
        place.release();
      },
    };
  }

  /** Takes a body in hand. */
  body(owner: string): { bytes: (total: number) => void; release: () => void } {
    let held: HeldPlaces | null = null;
    let counted = 0;
    return {
      bytes: (total) => {
        const more = total - counted;
        if (more <= 0) return;
        counted = total;
        if (held) {
          if (!held.add(more)) throw this.#noBytes(owner, more);
          return;
        }
        held = this.#bytes.take(owner, more);
        if (!held) throw this.#noBytes(owner, more);
      },
      release: () => held?.release(),
    };
  }

  /** Takes a stream of events in hand. @throws BusyError */
  eventStream(owner: string): HeldPlaces {
    const place = this.#streams.take(owner, 1);
    if (place) return place;
    throw new BusyError(
      'too_many_event_streams',
      `As many event streams are followed as this service serves at once (${this.limits.eventStreams}, limits.eventStreams); end those that are not needed, or ask for the events without a stream.`,
      this.#streams.retryAfterSeconds(owner, 1),
    );
  }

  /** Whether one more job of a model may wait. @throws BusyError */
  async job(store: Pick<Store, 'countUnfinishedJobs' | 'countJobsEnded'>, modelId: string): Promise<void> {
    const { all, ofModel } = await store.countUnfinishedJobs(modelId);
    const { jobs, jobsOfModel } = this.limits;
    if (all < jobs && ofModel < jobsOfModel) return;
    this.#otherwiseRefused++;
    const which =
      all >= jobs
        ? `${all} training jobs have not ended, and this service takes ${jobs} (limits.jobs)`
        : `${ofModel} training jobs of this model have not ended, and this service takes ${jobsOfModel} (limits.jobsOfModel)`;
    const endedInMinute = await store.countJobsEnded(new Date(Date.now() - 60_000).toISOString());
    throw new BusyError(
      'too_many_jobs',
      `${which}; wait for one to end, or cancel one.`,
      Math.ceil(60 / Math.max(1, endedInMinute)),
    );
  }

  /** What a request on a connection beyond the limit is refused with. */
  tooManyConnections(): BusyError {
    this.#otherwiseRefused++;
    return new BusyError(
      'too_many_connections',
      `As many connections are open as this service keeps (${this.limits.connections}, limits.connections); close those that are idle.`,
      this.#replies.retryAfterSeconds('', 1),
    );
  }

  #noReplies(owner: string, count: number): BusyError {
    return new BusyError(
      'too_many_requests',
      `As many replies are asked for as this service takes in hand at once (${this.limits.replies}, limits.replies; one key holds at most 16 times what is free); send fewer at a time.`,
      this.#replies.retryAfterSeconds(owner, count),
    );
  }

  #noBytes(owner: string, bytes: number): BusyError {
    return new BusyError(
      'too_many_bytes',
      `As many bytes of requests are in hand as this service holds (${this.limits.bodyBytes}, limits.bodyBytes); send fewer or smaller requests at a time.`,
      this.#bytes.retryAfterSeconds(owner, bytes),
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
