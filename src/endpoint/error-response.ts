import {
  BadResponseError,
  ConnectionError,
  RateLimitError,
  RequestError,
  ServiceError,
  TimeoutError,
  UnprocessableError,
} from '../client/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { LimitReachedError, TrajectoryClosedError, UnexpectedCallError } from '../trajectory/index.ts';
import { EndpointError } from './errors.ts';

/** The form in which OpenAI-compatible clients read errors. */
export interface ErrorResponseBody {
  error: { message: string; type: string; param: string | null; code: string | null };
}

/** An error as the agent's client is told of it. */
export function errorResponse(error: unknown): Response {
  const status = statusOf(error);
  const headers = new Headers({ 'content-type': 'application/json' });
  const waitMs = retryAfterMs(error);
  if (waitMs !== null) {
    headers.set('retry-after', String(Math.ceil(waitMs / 1000)));
    headers.set('retry-after-ms', String(waitMs));
  }
  // Read by OpenAI's clients: what this process has turned down, it would turn down again.
  if (!(error instanceof RequestError) && status < 500) headers.set('x-should-retry', 'false');
  return new Response(JSON.stringify(errorBody(error)), { status, headers });
}

export function errorBody(error: unknown): ErrorResponseBody {
  const known = MartingaleError.isInstance(error);
  return {
    error: {
      message: error instanceof Error ? error.message : String(error),
      type: typeOf(statusOf(error)),
      param: paramOf(error),
      code: known ? error.code : null,
    },
  };
}

/** Errors of the service keep their status; of what broke on the way, the one that a gateway would give. */
function statusOf(error: unknown): number {
  if (error instanceof EndpointError) return error.status;
  if (error instanceof TrajectoryClosedError) return 410;
  if (error instanceof LimitReachedError) return 400;
  if (error instanceof UnexpectedCallError) return 422;
  if (error instanceof TimeoutError || hasCode(error, 'model_call_timeout')) return 504;
  if (error instanceof ConnectionError || error instanceof BadResponseError) return 502;
  // What breaks behind the head of an answer has the status of success.
  if (error instanceof RequestError) return error.status !== null && error.status >= 400 ? error.status : 502;
  if (hasCode(error, 'incomplete_completion')) return 502;
  return MartingaleError.isInstance(error) ? 400 : 500;
}

const hasCode = (error: unknown, code: string): boolean =>
  MartingaleError.isInstance(error) && error.code === code;

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

function paramOf(error: unknown): string | null {
  if (error instanceof EndpointError) return error.param;
  if (!(error instanceof UnprocessableError)) return null;
  const [issue] = error.issues;
  return issue ? issue.loc.slice(1).join('.') || null : null;
}

function retryAfterMs(error: unknown): number | null {
  return error instanceof RateLimitError || error instanceof ServiceError ? error.retryAfterMs : null;
}
