import type { CallFacts, ClientLimits } from './errors.ts';
import type { ServiceAddress } from './options.ts';
import type { Repeat, RetryNotice } from './retry.ts';

/** Options of the client or of a call that set a deadline. */
export type TimeoutOption = 'timeoutMs' | 'readTimeoutMs' | 'idleTimeoutMs';

/** Pieces are sent without joining them. Each attempt sends them again. */
export type RequestBody = string | Uint8Array | readonly Uint8Array[];

export interface Call {
  method: 'GET' | 'POST' | 'DELETE';
  /** Path after `/v1`. */
  path: string;
  query?: Record<string, string | number | undefined>;
  body?: RequestBody;
  headers?: Record<string, string>;
  repeat: Repeat;
  signal?: AbortSignal | undefined;
  /** Called before the pause of each retry. */
  onRetry?: ((notice: RetryNotice) => void) | undefined;
  /** Deadline of one attempt in milliseconds. With `idle`, the maximum silence between two pieces of the body. */
  timeoutMs: number;
  idle?: boolean;
  /** The option that raises the deadline. */
  timeoutOption: TimeoutOption;
  /** Default: the client's service. */
  address?: ServiceAddress;
  /** Statuses outside 2xx that are not errors. */
  accept?: readonly number[];
}

/** A response whose headers have arrived. */
export interface OpenAnswer {
  facts: Omit<CallFacts, 'detail'> & { status: number };
  contentType: string;
  /** `Content-Length` in bytes; null if absent. */
  contentLength: number | null;
  /** `Content-Disposition`, unparsed; null if absent. */
  contentDisposition: string | null;
  limits: ClientLimits;
  /*
   * The body can be read once, in one of these ways. Like the call itself, all reject after a cut, a timeout or an
   * abort. Except for `body`, the call's deadline bounds the whole body, even with `idle`.
   */
  /** The body in pieces, without a limit. */
  body: AsyncIterable<Uint8Array>;
  /** The body in pieces. Rejects above `limits.answerBytes`. */
  answer(): AsyncIterable<Uint8Array>;
  /** The whole body. Rejects above `limits.answerBytes`. */
  text(): Promise<string>;
  /** The first `limits.errorBytes` bytes, for error messages. */
  beginning(): Promise<string>;
}

export interface Answer {
  facts: OpenAnswer['facts'];
  text: string;
}
