import { ServiceError } from '../errors.ts';

/** How much the service accepts at once. Requests beyond a limit get a 429 with `Retry-After`. */
export interface ServiceLimits {
  /**
   * Replies of chat requests, waiting or in progress. A request counts as its `n`, or as its beam width. A
   * waiting reply takes about 50 kB. Default 20,000.
   */
  replies: number;
  /** Bytes of the bodies of unanswered requests, in memory and on disk. Default 1 GiB. */
  bodyBytes: number;
  /** Unfinished training jobs. Default 1000. */
  jobs: number;
  /** Unfinished training jobs of one model. Default 256. */
  jobsOfModel: number;
  /** Open streams of training events. Default 1000. */
  eventStreams: number;
  /** Concurrent fetches of training data from `file:` or `https:` URLs. Default 32. */
  dataFetches: number;
  /**
   * Open connections. Requests on further connections are refused and the connection closed. Default
   * 30,000.
   */
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
 * Fills in the defaults.
 *
 * @param largestBody The largest body in bytes; `bodyBytes` must hold at least one.
 * @throws ServiceError `bad_option` for an unknown limit or an invalid value.
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
