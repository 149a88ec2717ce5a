import type { CallFacts, ClientLimits } from './errors.ts';
import type { ServiceAddress } from './options.ts';
import type { Repeat, RetryNotice } from './retry.ts';

/** Options of the client or of a call that set a deadline. */
export type TimeoutOption = 'timeoutMs' | 'readTimeoutMs' | 'idleTimeoutMs';

/** In pieces it is sent as it is, without being put together; each attempt sends it anew. */
export type RequestBody = string | Uint8Array | readonly Uint8Array[];

export interface Call {
  method: 'GET' | 'POST' | 'DELETE';
  /** Path behind `/v1`. */
  path: string;
  query?: Record<string, string | number | undefined>;
  body?: RequestBody;
  headers?: Record<string, string>;
  repeat: Repeat;
  signal?: AbortSignal | undefined;
  /** Hears of each repeat before its pause. */
  onRetry?: ((notice: RetryNotice) => void) | undefined;
  /** Deadline of one attempt; of the silence between two pieces of the body where `idle`. */
  timeoutMs: number;
  idle?: boolean;
  /** The option that raises the deadline. */
  timeoutOption: TimeoutOption;
  /** Another service than the client's own. */
  address?: ServiceAddress;
  /** Statuses outside 2xx that are an answer all the same. */
  accept?: readonly number[];
}

/** A response whose head has come and whose body is coming. */
export interface OpenAnswer {
  facts: Omit<CallFacts, 'detail'> & { status: number };
  contentType: string;
  /** `Content-Length` in bytes; null where the service does not say. */
  contentLength: number | null;
  /** `Content-Disposition` as it came. */
  contentDisposition: string | null;
  limits: ClientLimits;
  /*
   * The body, to be read once, in one of these ways. All reject as the call itself would: cut, timed out, aborted;
   * all but the first have the call's deadline as that of the whole, also where it is `idle`.
   */
  /** As it comes, however long it is. */
  body: AsyncIterable<Uint8Array>;
  /** As it comes. Throws a `ResponseTooLargeError` beyond `limits.answerBytes`. */
  answer(): AsyncIterable<Uint8Array>;
  /** The whole of it. Throws a `ResponseTooLargeError` beyond `limits.answerBytes`. */
  text(): Promise<string>;
  /** The first `limits.errorBytes`, for an error to tell of. */
  beginning(): Promise<string>;
}

export interface Answer {
  facts: OpenAnswer['facts'];
  text: string;
}
