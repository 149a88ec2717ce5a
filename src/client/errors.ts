import { MartingaleError, printable, printableLines, type ValidationIssue } from '../contract/index.ts';
import { hasCode } from '../util/error.ts';

/**
 * Limits on what a client reads, so that no answer can fill its memory. Above `answerBytes` or `eventBytes` a call
 * rejects with `ResponseTooLargeError` and its connection is dropped. Checkpoint downloads have no limit, because they
 * are streamed.
 */
export interface ClientLimits {
  /** Bytes of an answer, or of all chunks of a streamed completion. Default 268435456 (256 MiB). */
  answerBytes: number;
  /** Bytes from the end of one stream event to the end of the next. Default 67108864 (64 MiB). */
  eventBytes: number;
  /** Bytes of an error's body; the rest is not read. Default 1048576 (1 MiB). */
  errorBytes: number;
}

/** A failed call and its outcome. */
export interface CallFacts {
  method: string;
  /** Path including the prefix of the base URL, without the query. */
  path: string;
  /** HTTP status; null if there was no response. */
  status: number | null;
  /** The response's `x-request-id`, which identifies the call in the service's log; null if absent. */
  requestId: string | null;
  /** The service's error message, or a description of the failure. */
  detail: string;
}

/** Maximum number of characters of `detail` in the error message. */
const toldLength = 2000;
const longestDetail = 2 ** 20;

/**
 * Base class of all errors of calls to the service. Control characters are removed from the service's message, so that
 * the error is safe to print on a terminal.
 */
export class RequestError extends MartingaleError {
  readonly method: string;
  readonly path: string;
  readonly status: number | null;
  readonly requestId: string | null;
  /** The service's message, up to a million characters. The error message has its first 2000 characters, on one line. */
  readonly detail: string;

  constructor(code: string, facts: CallFacts, remedy: string, options?: ErrorOptions) {
    const status = facts.status === null ? '' : `${facts.status}: `;
    const said = `${facts.method} ${facts.path}: ${status}${sentence(told(facts.detail), facts.requestId)} ${remedy}`;
    super(code, printable(said).trim(), options);
    this.method = facts.method;
    this.path = facts.path;
    this.status = facts.status;
    this.requestId = facts.requestId === null ? null : printable(facts.requestId);
    this.detail = printableLines(facts.detail.slice(0, longestDetail));
  }
}

const told = (detail: string): string =>
  detail.length > toldLength
    ? `${detail.slice(0, toldLength)}… (${detail.length} characters, see detail)`
    : detail;

/** The detail with one full stop at its end, whether or not the service's message had one. */
function sentence(detail: string, requestId: string | null): string {
  if (requestId !== null) return `${detail.replace(/\.$/, '')} (request id ${requestId}).`;
  return /[.!?]["')]?$/.test(detail) ? detail : `${detail}.`;
}

function remedyOf(status: number): string {
  if (status === 408)
    return 'The request took too long to arrive; send less at once, or check the connection.';
  if (status >= 300 && status < 400)
    return 'Redirects are not followed, as the key would go with them; give the right address as baseUrl.';
  return 'Repeating the same call will not help.';
}

/** 400, a redirect, or any status without its own class. Code `request_refused`. */
export class RequestRefusedError extends RequestError {
  constructor(facts: CallFacts) {
    super('request_refused', facts, remedyOf(facts.status ?? 0));
  }
}

/**
 * 400 or 422 for a prompt longer than the model's context. Code `context_length_exceeded`. Detected by that code in the
 * body, or in a 400 by words such as "maximum context length".
 */
export class ContextLengthError extends RequestError {
  constructor(facts: CallFacts) {
    super(
      'context_length_exceeded',
      facts,
      'Send fewer or shorter messages, or use a model with a longer context.',
    );
  }
}

/** 401. Code `authentication_failed`. */
export class AuthenticationError extends RequestError {
  constructor(facts: CallFacts) {
    super('authentication_failed', facts, 'Check that apiKey is a key of this service, and was not revoked.');
  }
}

/** 403. Code `permission_denied`. */
export class PermissionDeniedError extends RequestError {
  constructor(facts: CallFacts) {
    super('permission_denied', facts, 'The key is known but not allowed to do this; use one that is.');
  }
}

/** 404. Code `not_found`. */
export class NotFoundError extends RequestError {
  constructor(facts: CallFacts) {
    super(
      'not_found',
      facts,
      'Check the name or id, that it has not been deleted, and that baseUrl is the right service.',
    );
  }
}

/** 409. Code `conflict`. */
export class ConflictError extends RequestError {
  constructor(facts: CallFacts) {
    super(
      'conflict',
      facts,
      'It exists already, is in use, or the idempotency key went with another body before.',
    );
  }
}

/** 413. Code `payload_too_large`. */
export class PayloadTooLargeError extends RequestError {
  constructor(facts: CallFacts) {
    super('payload_too_large', facts, 'Send less at once: fewer or shorter trajectories.');
  }
}

/** 422. Code `unprocessable`. */
export class UnprocessableError extends RequestError {
  /** The validation issues; empty if the body does not have the contract's format. */
  readonly issues: readonly ValidationIssue[];

  constructor(facts: CallFacts, issues: readonly ValidationIssue[]) {
    super('unprocessable', facts, 'Correct the named fields of the request.');
    this.issues = issues.map((issue) => ({
      ...issue,
      loc: issue.loc.map((place) => (typeof place === 'string' ? printable(place) : place)),
      msg: printableLines(issue.msg),
    }));
  }
}

/** 429. Code `rate_limited`. */
export class RateLimitError extends RequestError {
  /** Milliseconds to wait, from `Retry-After`; null if absent. */
  readonly retryAfterMs: number | null;

  constructor(facts: CallFacts, retryAfterMs: number | null) {
    super('rate_limited', facts, 'Wait, then run fewer calls at once.');
    this.retryAfterMs = retryAfterMs;
  }
}

/** 5xx. Code `service_failed`. */
export class ServiceError extends RequestError {
  /** Milliseconds to wait, from `Retry-After`; null if absent. */
  readonly retryAfterMs: number | null;

  constructor(facts: CallFacts, retryAfterMs: number | null) {
    super('service_failed', facts, 'The fault is the service’s; its log has the reason.');
    this.retryAfterMs = retryAfterMs;
  }
}

/** No complete response arrived. Codes: `connection_failed`; after `close()`, `client_closed`. */
export class ConnectionError extends RequestError {
  /** False if no connection was made, so the service cannot have received the call. */
  readonly connected: boolean;

  constructor(facts: CallFacts, reason: 'not_connected' | 'cut' | 'client_closed', options?: ErrorOptions) {
    const remedies = {
      not_connected: 'Check that the service is running and that baseUrl names it.',
      cut: 'The connection broke before the response was whole: check the network. The service may have acted on the call.',
      client_closed: 'Make calls before close(), or make another client.',
    };
    const code = reason === 'client_closed' ? reason : 'connection_failed';
    super(code, facts, speaksHttp(options?.cause) ? wrongScheme : remedies[reason], options);
    this.connected = reason === 'cut';
  }
}

const wrongScheme = 'What listens there speaks http, not https: use http:// in baseUrl.';

/** Whether a TLS handshake got an answer that is not TLS. */
const speaksHttp = (cause: unknown): boolean => hasCode(cause, 'ERR_SSL_WRONG_VERSION_NUMBER');

/** The deadline passed. Code `timed_out`. */
export class TimeoutError extends RequestError {
  readonly timeoutMs: number;

  /** @param option The option that sets the deadline. */
  constructor(facts: CallFacts, timeoutMs: number, option: string) {
    super('timed_out', facts, `Raise ${option} if the service may take this long.`);
    this.timeoutMs = timeoutMs;
  }
}

/** A response that violates the contract, such as a proxy's page. Code `bad_response`. */
export class BadResponseError extends RequestError {
  constructor(facts: CallFacts, options?: ErrorOptions) {
    super('bad_response', facts, 'Check that baseUrl names a service of this interface.', options);
  }
}

/**
 * A response above a limit of the client, or one that never ends. The connection was dropped. Code
 * `response_too_large`.
 */
export class ResponseTooLargeError extends RequestError {
  /** The exceeded limit, one of the client's `limits`. */
  readonly limit: keyof ClientLimits;
  /** The limit in bytes. */
  readonly limitBytes: number;

  constructor(facts: Omit<CallFacts, 'detail'>, limit: keyof ClientLimits, limitBytes: number) {
    const what = limit === 'eventBytes' ? 'one event of the stream' : 'the response';
    super(
      'response_too_large',
      { ...facts, detail: `${what} is larger than ${limitBytes} bytes` },
      `Raise limits.${limit} of the client if the service may send this much; if not, check what answers at baseUrl.`,
    );
    this.limit = limit;
    this.limitBytes = limitBytes;
  }
}

/** An invalid option of the client. Code `invalid_client_option`. */
export class ClientOptionError extends MartingaleError {
  constructor(message: string) {
    super('invalid_client_option', message);
  }
}
