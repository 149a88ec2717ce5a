import type { ErrorBody, ValidationIssue } from '../contract/index.ts';
import { EngineError } from '../engines/engine.ts';
import { LanguageError } from '../language/error.ts';
import { type ErrorStatus, fromLanguage, messageOf, RequestValidationError, ServiceError } from './errors.ts';
import { engineFaults, internalFaults, machineFaultOf } from './faults.ts';
import type { ServiceLog } from './telemetry.ts';

type Body = Pick<ErrorBody, 'error'> & { detail: string | ValidationIssue[] };

/** Paths of the OpenAI API, whose clients read `error`. */
export const isOpenAiPath = (path: string): boolean => /^\/v1\/(chat|models)(\/|$)/.test(path);

/**
 * The response to an error. `openAi`: include the `error` object that OpenAI clients read. An internal
 * error is logged and not described to the caller.
 */
export function toErrorBody(
  error: unknown,
  log: ServiceLog,
  { openAi, requestId }: { openAi: boolean; requestId: string | null },
): { status: ErrorStatus; body: Body } {
  const known = toServiceError(error);
  if (known.status >= 500)
    log({
      level: 'error',
      event: 'request_failed',
      request: requestId,
      error: messageOf(error),
      stack: error instanceof Error ? (error.stack ?? null) : null,
    });
  const detail = known instanceof RequestValidationError ? known.issues : known.message;
  // A 503 carries its code on every path, so that programs can decide to retry; a 405 often goes to an
  // OpenAI client.
  if (!openAi && known.status !== 503 && known.status !== 405)
    return { status: known.status, body: { detail } };
  const type = errorTypes[known.status] ?? (known.status >= 500 ? 'server_error' : 'invalid_request_error');
  const param = known instanceof RequestValidationError ? known.issues[0]?.loc.slice(1).join('.') : undefined;
  return {
    status: known.status,
    body: { detail, error: { message: known.message, type, param: param || null, code: known.code } },
  };
}

/** The `type` that OpenAI clients know for a status. */
const errorTypes: Partial<Record<ErrorStatus, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

/** Engine errors name the option that the engine does not support, so the caller gets them. */
function fromEngine(cause: EngineError | LanguageError): ServiceError {
  const fault = engineFaults[cause.code];
  if (fault) return new ServiceError(fault.status, cause.code, fault.message, { cause });
  return internalFaults.has(cause.code)
    ? internalError(cause)
    : cause instanceof LanguageError
      ? fromLanguage(cause)
      : new ServiceError(422, cause.code, cause.message, { cause });
}

const internalError = (cause: unknown) =>
  new ServiceError(500, 'internal_error', 'Internal Server Error', { cause });

function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  const machineFault = machineFaultOf(error);
  if (machineFault) return machineFault;
  if (error instanceof EngineError || error instanceof LanguageError) return fromEngine(error);
  if (error instanceof RangeError && error.message.includes('call stack'))
    return new ServiceError(422, 'too_deep', 'The body is nested too deeply.', { cause: error });
  return internalError(error);
}
