import type { OptionTree } from '../../util/option-names.ts';
import { badOption } from '../errors.ts';

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
  /** Stored groups that no job or log has named. Default 100,000. */
  groups: number;
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

const defaultLimits: ServiceLimits = {
  replies: 20_000,
  bodyBytes: 1024 ** 3,
  jobs: 1000,
  jobsOfModel: 256,
  groups: 100_000,
  eventStreams: 1000,
  dataFetches: 32,
  connections: 30_000,
};

export const limitNames: OptionTree = Object.fromEntries(
  Object.keys(defaultLimits).map((name) => [name, true as const]),
);

/**
 * Fills in the defaults.
 *
 * @param maxBody The largest body in bytes; `bodyBytes` must hold at least one.
 * @throws ServiceError `bad_option` for an invalid value.
 */
export function resolveLimits(options: Partial<ServiceLimits> = {}, maxBody: number): ServiceLimits {
  const set = Object.entries(options).filter(([, value]) => value !== undefined);
  const limits = { ...defaultLimits, ...Object.fromEntries(set) };
  for (const [name, value] of Object.entries(limits)) {
    const error =
      !Number.isSafeInteger(value) || value < 1
        ? 'It must be a positive integer.'
        : name === 'bodyBytes' && value < maxBody
          ? `It must hold the largest body, ${maxBody} bytes: raise it or lower bodyLimits.`
          : null;
    if (error !== null) throw badOption(`limits.${name} is ${String(value)}. ${error}`);
  }
  return limits;
}
