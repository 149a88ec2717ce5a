import { MartingaleError, printable, printableLines, type ValidationIssue } from '../contract/index.ts';
import { hasCode } from '../util/error.ts';

/**
 * Limits on what a client reads, so that no answer can fill its memory. Above `answerBytes` or `eventBytes` a call
 * rejects with RequestError of code `response_too_large` and its connection is dropped. Checkpoint downloads have no
 * limit, because they are streamed.
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
  /** Origin of the address that was called; absent if unknown. */
  origin?: string;
  /** `Content-Type` of the response; absent if there was none. */
  contentType?: string;
}

/**
 * - `context_length_exceeded`: 400 or 422 for a prompt longer than the model's context. Detected by that code in the
 *   body, or in a 400 by words such as "maximum context length".
 * - `authentication_failed`: 401.
 * - `permission_denied`: 403.
 * - `not_found`: 404.
 * - `conflict`: 409.
 * - `payload_too_large`: 413.
 * - `unprocessable`: 422, with `issues`.
 * - `rate_limited`: 429, with `retryAfterMs`.
 * - `service_failed`: 5xx, with `retryAfterMs`, or a failure during a stream.
 * - `request_refused`: 400, a redirect, or any other status.
 * - `connection_failed`: no complete response arrived; see `connected`.
 * - `client_closed`: the client was closed before or during the call.
 * - `timed_out`: the deadline `option` passed.
 * - `bad_response`: the response violates the contract, such as the page of a proxy or of another program, also with status
 *   400, 404 or 405.
 * - `response_too_large`: the response exceeds the limit `option`, or never ends. The connection was dropped.
 */
export type RequestErrorCode =
  | 'context_length_exceeded'
  | 'authentication_failed'
  | 'permission_denied'
  | 'not_found'
  | 'conflict'
  | 'payload_too_large'
  | 'unprocessable'
  | 'rate_limited'
  | 'service_failed'
  | 'request_refused'
  | 'connection_failed'
  | 'client_closed'
  | 'timed_out'
  | 'bad_response'
  | 'response_too_large';

/** What only some errors have. */
export interface RequestErrorDetails {
  retryAfterMs?: number | null;
  issues?: readonly ValidationIssue[];
  connected?: boolean;
  option?: string;
  cause?: unknown;
}

/** Where a user sets the address of a service. */
const addressOptions = '`--base-url` on the command line, `baseUrl` in a program';
const checkAddress = `Check the address: ${addressOptions}.`;

/** Whether a response is an HTML page. */
export const isHtml = (contentType = ''): boolean => /^(?:text\/html|application\/xhtml)/i.test(contentType);

/** Whether a response is a page or plain text, which no service of this interface sends. */
export const isPage = (contentType = ''): boolean => isHtml(contentType) || /^text\/plain/i.test(contentType);

type Remedy = string | ((facts: CallFacts, details: RequestErrorDetails) => string);

/** The last sentence of the message. */
const remedies: Readonly<Record<RequestErrorCode, Remedy>> = {
  context_length_exceeded: 'Send fewer or shorter messages, or use a model with a longer context.',
  authentication_failed:
    'Check that the key (`--api-key` or MARTINGALE_API_KEY on the command line, `apiKey` in a program) is one of this service and has not been revoked.',
  permission_denied: 'The key is valid but not allowed to do this; use one that is.',
  not_found:
    'Check the name or id, that it has not been deleted, and that the address (`--base-url`, `baseUrl`) leads to the right service.',
  conflict: 'It exists already, is in use, or the idempotency key was used with another body.',
  payload_too_large: 'Send less at once: fewer or shorter trajectories.',
  unprocessable: 'Correct the named fields of the request.',
  rate_limited: 'Wait, then run fewer calls at once.',
  service_failed: ({ origin, contentType }) =>
    isPage(contentType)
      ? `A proxy or another program answers at ${origin} (${contentType}). Check that the service is running. ${checkAddress}`
      : 'The service failed; see its log for the reason.',
  request_refused: ({ status }) => {
    if (status === 408)
      return 'The request took too long to arrive; send less at once, or check the connection.';
    if (status !== null && status >= 300 && status < 400)
      return 'Redirects are not followed, as the key would go with them; set `--base-url` or `baseUrl` to the final address.';
    return 'Repeating the same call will not help.';
  },
  connection_failed: (_, { connected = true, cause }) => {
    // A TLS handshake got an answer that is not TLS.
    if (hasCode(cause, 'ERR_SSL_WRONG_VERSION_NUMBER'))
      return 'The server speaks http, not https. Use http:// in `--base-url` or `baseUrl`.';
    return connected
      ? 'The connection broke before the response was complete: check the network. The service may have acted on the call.'
      : `Start the service (\`martingale serve\`), or check the address: ${addressOptions}.`;
  },
  client_closed: 'Make calls before close(), or create another client.',
  timed_out: (_, { option }) => `Raise ${option} if the service may take this long.`,
  bad_response: ({ origin, contentType }) =>
    isPage(contentType)
      ? `What answers at ${origin} is not a martingale service (${contentType}). ${checkAddress}`
      : `Check that what answers${origin === undefined ? '' : ` at ${origin}`} is a service of this interface (\`--base-url\`, \`baseUrl\`).`,
  response_too_large: (_, { option }) =>
    `Raise ${option} of the client if the service may send this much; if not, check what answers at the address (\`--base-url\`, \`baseUrl\`).`,
};

/** Maximum number of characters of `detail` in the error message, and in the field. */
const maxMessageDetail = 2000;
const maxDetail = 2 ** 20;

/**
 * A call to the service failed. Control characters are removed from the service's message, so that the error is safe to
 * print on a terminal.
 */
export class RequestError extends MartingaleError<RequestErrorCode> {
  readonly method: string;
  readonly path: string;
  /** HTTP status; null if there was no response. */
  readonly status: number | null;
  /** The response's `x-request-id`, which identifies the call in the service's log; null if absent. */
  readonly requestId: string | null;
  /** The service's message, up to a million characters. The error message has its first 2000 characters, on one line. */
  readonly detail: string;
  /** Milliseconds to wait, from the `Retry-After` of a 429 or 5xx; null if absent. */
  readonly retryAfterMs: number | null;
  /** The validation issues of the body; empty if it has none, or not in the contract's format. */
  readonly issues: readonly ValidationIssue[];
  /** False if no connection was opened, so the service cannot have received the call. */
  readonly connected: boolean;
  /** The option that raises the exceeded deadline or limit, such as `timeoutMs` or `limits.answerBytes`; null otherwise. */
  readonly option: string | null;
  /** What earlier attempts of the same call failed with, oldest first: the newest 100. The message sums them up. */
  earlier: readonly RequestError[] = [];

  constructor(code: RequestErrorCode, facts: CallFacts, details: RequestErrorDetails = {}) {
    const { retryAfterMs = null, issues = [], connected = true, option = null, cause } = details;
    const { method, path, status, requestId, detail } = facts;
    const remedy = remedies[code];
    const advice = typeof remedy === 'string' ? remedy : remedy(facts, details);
    const shown = `${status === null ? '' : `${status}: `}${sentence(shortened(detail), requestId)} ${advice}`;
    super(code, printable(`${method} ${path}: ${shown}`).trim(), cause === undefined ? {} : { cause });
    this.method = method;
    this.path = path;
    this.status = status;
    this.requestId = requestId === null ? null : printable(requestId);
    this.detail = printableLines(detail.slice(0, maxDetail));
    this.retryAfterMs = retryAfterMs;
    this.issues = issues.map((issue) => ({
      ...issue,
      loc: issue.loc.map((key) => (typeof key === 'string' ? printable(key) : key)),
      msg: printableLines(issue.msg),
    }));
    this.connected = connected;
    this.option = option;
  }

  /** The error, with the failures of `attempts` attempts before it, of which `earlier` are the newest. */
  after(earlier: readonly RequestError[], attempts: number): this {
    if (attempts === 0) return this;
    this.earlier = earlier;
    this.message += ` This was attempt ${attempts + 1}; before it: ${summary(earlier)}.`;
    return this;
  }
}

/** Whether a value is a RequestError with one of these codes; without codes, any RequestError. */
export function isRequestError(error: unknown, ...codes: RequestErrorCode[]): error is RequestError {
  return RequestError.isInstance(error) && (codes.length === 0 || codes.includes(error.code));
}

/** The failures by status or code, with their numbers: `503 (3 times), connection_failed`. */
function summary(errors: readonly RequestError[]): string {
  const counts = new Map<string, number>();
  for (const { status, code } of errors) {
    const kind = status === null ? code : `${status}`;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return Array.from(counts, ([kind, count]) => (count === 1 ? kind : `${kind} (${count} times)`)).join(', ');
}

const shortened = (detail: string): string =>
  detail.length > maxMessageDetail
    ? `${detail.slice(0, maxMessageDetail)}… (${detail.length} characters, see detail)`
    : detail;

/** The detail with one full stop at its end, whether or not the service's message had one. */
function sentence(detail: string, requestId: string | null): string {
  if (requestId !== null) return `${detail.replace(/\.$/, '')} (request id ${requestId}).`;
  return /[.!?]["')]?$/.test(detail) ? detail : `${detail}.`;
}

export function tooLarge(
  facts: Omit<CallFacts, 'detail'>,
  limit: 'answerBytes' | 'eventBytes',
  { [limit]: bytes }: ClientLimits,
): RequestError {
  const what = limit === 'eventBytes' ? 'one event of the stream' : 'the response';
  const detail = `${what} is larger than ${bytes} bytes`;
  return new RequestError('response_too_large', { ...facts, detail }, { option: `limits.${limit}` });
}
