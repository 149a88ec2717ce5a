import { ServiceError } from '../errors.ts';

/** How much work the service takes in hand at once; what goes beyond is answered 429 with `Retry-After`. */
export interface ServiceLimits {
  /**
   * Replies of chat requests from their arrival to their end, those that wait included: a request counts as its `n`,
   * or the width of its beam search. One that waits takes about 50 kB. Default 20,000.
   */
  replies: number;
  /** Bytes of the bodies of requests that are not answered yet, in memory and on disk. Default 1 GiB. */
  bodyBytes: number;
  /** Training jobs that have not ended. Default 1000. */
  jobs: number;
  /** Training jobs of one model that have not ended. Default 256. */
  jobsOfModel: number;
  /** Streams of training events. Default 1000. */
  eventStreams: number;
  /** Training data that is fetched from a `file:` or `https:` URL. Default 32. */
  dataFetches: number;
  /** Connections. Requests on those beyond are refused, and the connection closed. Default 30,000. */
  connections: number;
}

export const defaultLimits: ServiceLimits = {
  replies: 20_000,
  bodyBytes: 1024 ** 3,
  jobs: 1000,
  jobsOfModel: 256,
  eventStreams: 1000,
  dataFetches: 32,
  connections: 30_000,
};

/**
 * The limits with their defaults.
 *
 * @param largestBody What a body may have in bytes: `bodyBytes` must hold one.
 * @throws ServiceError `bad_option` for one that cannot be.
 */
export function resolveLimits(given: Partial<ServiceLimits> | undefined, largestBody: number): ServiceLimits {
  const limits = { ...defaultLimits, ...withoutUndefined(given ?? {}) };
  for (const [name, value] of Object.entries(limits)) {
    if (!(name in defaultLimits))
      throw refused(
        name,
        value,
        `There is none of this name; there are ${Object.keys(defaultLimits).join(', ')}.`,
      );
    if (!Number.isSafeInteger(value) || value < 1)
      throw refused(name, value, 'Give a whole number from 1 up.');
  }
  if (limits.bodyBytes < largestBody)
    throw refused(
      'bodyBytes',
      limits.bodyBytes,
      `A body may have ${largestBody} bytes (bodyLimits), and one must fit: raise it, or lower those.`,
    );
  return limits;
}

function refused(name: string, value: unknown, remedy: string): ServiceError {
  return new ServiceError(500, 'bad_option', `limits.${name} is ${String(value)}. ${remedy}`);
}

function withoutUndefined(limits: Partial<ServiceLimits>): Partial<ServiceLimits> {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined));
}
