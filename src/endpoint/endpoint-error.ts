import { isRequestError } from '../client/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { messageOf } from '../util/error.ts';

type EndpointStatus = 400 | 401 | 404 | 410 | 413 | 415 | 503;

/** A request that the endpoint itself rejects. */
export class EndpointError extends MartingaleError {
  readonly status: EndpointStatus;
  /** Path of the invalid field, as in OpenAI-compatible errors; null if there is none. */
  readonly param: string | null;

  constructor(status: EndpointStatus, code: string, message: string, param: string | null = null) {
    super(code, message);
    this.status = status;
    this.param = param;
  }
}

/** The error for a field, or a value of a field, that is not supported. */
export function unsupported(param: string, remedy: string): EndpointError {
  return new EndpointError(
    400,
    'unsupported_parameter',
    `\`${param}\` is not supported here. ${remedy}`,
    param,
  );
}

export function invalid(param: string, problem: string): EndpointError {
  return new EndpointError(400, 'invalid_parameter', `\`${param}\` ${problem}`, param);
}

/** The error format of OpenAI-compatible clients. */
interface ErrorResponseBody {
  error: { message: string; type: string; param: string | null; code: string | null };
}

export interface ErrorResponse {
  status: number;
  headers: Record<string, string>;
  body: unknown;
}

/** The HTTP response for an error. @param toBody Its form. Default: what clients of OpenAI expect. */
export function errorResponse(
  error: unknown,
  toBody: (error: unknown) => unknown = errorBody,
): ErrorResponse {
  const status = statusOf(error);
  const headers: Record<string, string> = {};
  const waitMs = isRequestError(error) ? error.retryAfterMs : null;
  if (waitMs !== null) {
    headers['retry-after'] = String(Math.ceil(waitMs / 1000));
    headers['retry-after-ms'] = String(waitMs);
  }
  // Stops the clients of OpenAI and Anthropic from retrying: this process would reject the same request again.
  if (!isRequestError(error) && status < 500) headers['x-should-retry'] = 'false';
  return { status, headers, body: toBody(error) };
}

export function errorBody(error: unknown): ErrorResponseBody {
  return {
    error: {
      message: messageOf(error),
      type: typeOf(statusOf(error)),
      param: paramOf(error),
      code: MartingaleError.isInstance(error) ? error.code : null,
    },
  };
}

/** The form of Anthropic's errors, alone and as an event of a stream. Its clients read the code as `errorCode`. */
export function messagesErrorBody(error: unknown) {
  const { message: said, code } = errorBody(error).error;
  // The words by which agents notice that they have to shorten the conversation.
  const message = code === 'context_length_exceeded' ? `prompt is too long: ${said}` : said;
  const type =
    messagesTypes[statusOf(error)] ?? (statusOf(error) >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { type, message, details: code === null ? null : { error_code: code } } };
}

const messagesTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

const statusOfCode: Readonly<Record<string, number>> = {
  trajectory_closed: 410,
  model_call_timeout: 504,
  incomplete_completion: 502,
  timed_out: 504,
  connection_failed: 502,
  client_closed: 502,
  bad_response: 502,
};

/** Errors of the service keep their status. Other errors get the status of a gateway. */
function statusOf(error: unknown): number {
  if (error instanceof EndpointError) return error.status;
  if (!MartingaleError.isInstance(error)) return 500;
  const gateway = statusOfCode[error.code];
  if (gateway !== undefined) return gateway;
  // An error after the response's headers has a 2xx status.
  if (isRequestError(error)) return error.status !== null && error.status >= 400 ? error.status : 502;
  return error.code.startsWith('unexpected_call_') ? 422 : 400;
}

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

function paramOf(error: unknown): string | null {
  if (error instanceof EndpointError) return error.param;
  if (!isRequestError(error)) return null;
  return error.issues[0]?.loc.slice(1).join('.') || null;
}
