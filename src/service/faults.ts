import type { ErrorBody, ValidationIssue } from '../contract/index.ts';
import { EngineError } from '../engines/engine.ts';
import { LanguageError } from '../language/index.ts';
import { type ErrorStatus, fromLanguage, messageOf, RequestValidationError, ServiceError } from './errors.ts';
import type { ServiceLog } from './telemetry.ts';

/** Faults of the machine that no request or job can do anything about. */
const messages = {
  storage_full: "The service's disk is full. Retry once space is free.",
  storage_read_only:
    'The service cannot write its data (read-only disk or missing permissions). Retry once it can.',
  storage_failed: "The service's disk reported an error. Retry.",
  too_many_files: "The service has reached the system's limit of open files and connections. Retry.",
  out_of_memory: 'The machine is out of memory. Retry.',
};

export type FaultCode = keyof typeof messages;

/** By errno(3) code. */
const systemCodes: Record<string, FaultCode> = {
  ENOSPC: 'storage_full',
  EDQUOT: 'storage_full',
  EROFS: 'storage_read_only',
  EACCES: 'storage_read_only',
  EPERM: 'storage_read_only',
  EIO: 'storage_failed',
  ESTALE: 'storage_failed',
  EMFILE: 'too_many_files',
  ENFILE: 'too_many_files',
  ENOMEM: 'out_of_memory',
};

/** By primary SQLite result code: https://www.sqlite.org/rescode.html. */
const sqliteCodes: Record<number, FaultCode> = {
  3: 'storage_read_only',
  5: 'storage_failed',
  7: 'out_of_memory',
  8: 'storage_read_only',
  10: 'storage_failed',
  13: 'storage_full',
  14: 'storage_failed',
};

/** An error and its chain of causes, outermost first. */
export function* causesOf(error: unknown): Generator<object> {
  const seen = new Set<unknown>();
  for (let cause = error; typeof cause === 'object' && cause !== null && !seen.has(cause); ) {
    seen.add(cause);
    yield cause;
    cause = 'cause' in cause ? cause.cause : undefined;
  }
}

/**
 * The 503 for an error caused by the machine (no disk space, file handles or memory); null for other
 * errors.
 */
export function machineFaultOf(error: unknown): ServiceError | null {
  const code = faultCodeOf(error);
  return code ? new ServiceError(503, code, messages[code], { cause: error }) : null;
}

export function faultCodeOf(error: unknown): FaultCode | undefined {
  for (const cause of causesOf(error)) {
    const code = codeOf(cause);
    if (code) return code;
  }
  return undefined;
}

function codeOf(cause: object): FaultCode | undefined {
  if ('errcode' in cause && typeof cause.errcode === 'number') return sqliteCodes[cause.errcode & 0xff];
  return 'code' in cause && typeof cause.code === 'string' ? systemCodes[cause.code] : undefined;
}

/** Engine faults that the request did not cause, and how they are answered. */
const engineFaults: Readonly<Record<string, { status: ErrorStatus; message: string }>> = {
  checkpoint_missing: { status: 404, message: 'The checkpoint was deleted during the request.' },
  engine_closed: { status: 503, message: 'The service is shutting down.' },
  engine_away: { status: 503, message: 'The training server behind this service is away. Retry.' },
  engine_full: {
    status: 503,
    message: 'The training server behind this service has no place for another adapter. Retry.',
  },
  worker_died: { status: 503, message: 'The engine stopped during the request. Retry.' },
  constraints_busy: {
    status: 503,
    message:
      'Too many constraints (tools, response_format, structured_outputs) are waiting to be compiled. Retry, and send fewer new ones at a time.',
  },
  out_of_memory: { status: 503, message: 'The engine has no memory left for the request. Retry.' },
  bad_checkpoint: { status: 500, message: 'Internal Server Error' },
  engine_failed: { status: 500, message: 'Internal Server Error' },
};

const isEngineError = (error: unknown): error is EngineError | LanguageError =>
  error instanceof EngineError || error instanceof LanguageError;

/** Whether the engine itself failed, as opposed to refusing a request. */
export const isEngineFault = (error: unknown): boolean =>
  isEngineError(error) && Object.hasOwn(engineFaults, error.code);

/** Paths of the OpenAI API, whose clients read `error`. */
export const isOpenAiPath = (path: string): boolean => /^\/v1\/(chat|models)(\/|$)/.test(path);

/** The error for the caller. One of the service's own is logged; an internal one is not described. */
export function errorFor(error: unknown, log: ServiceLog, request: string | null): ServiceError {
  const known = toServiceError(error);
  const stack = error instanceof Error ? (error.stack ?? null) : null;
  if (known.status >= 500)
    log({ level: 'error', event: 'request_failed', request, error: messageOf(error), stack });
  return known;
}

function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  const machineFault = machineFaultOf(error);
  if (machineFault) return machineFault;
  if (isEngineError(error)) {
    const fault = Object.hasOwn(engineFaults, error.code) ? engineFaults[error.code] : undefined;
    if (fault?.status === 500) return internalError(error);
    if (fault) return new ServiceError(fault.status, error.code, fault.message, { cause: error });
    if (error instanceof LanguageError) return fromLanguage(error);
    // It names the option that the engine does not support.
    return new ServiceError(422, error.code, error.message, { cause: error });
  }
  if (error instanceof RangeError && error.message.includes('call stack'))
    return new ServiceError(422, 'too_deep', 'The body is nested too deeply.', { cause: error });
  return internalError(error);
}

const internalError = (cause: unknown) =>
  new ServiceError(500, 'internal_error', 'Internal Server Error', { cause });

/** The `type` that OpenAI clients know for a status. */
const errorTypes: Partial<Record<ErrorStatus, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

/** The issues of a 422. An error that is not about one field is an issue of the whole request. */
const issuesOf = (error: ServiceError): ValidationIssue[] =>
  error instanceof RequestValidationError
    ? error.issues
    : [{ loc: ['request'], msg: error.message, type: error.code, input: null, ctx: {} }];

/** The body of an error. `openAi`: include the `error` object that OpenAI clients read. */
export function toErrorBody(
  error: ServiceError,
  { openAi }: { openAi: boolean },
): Pick<ErrorBody, 'error'> & { detail: string | ValidationIssue[] } {
  const { status, code, message } = error;
  const issues = status === 422 ? issuesOf(error) : null;
  const detail = issues ?? message;
  // A 503 carries its code on every path, so that programs can decide to retry; a 405 often goes to an
  // OpenAI client.
  if (!openAi && status !== 503 && status !== 405) return { detail };
  const type = errorTypes[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
  const param = issues?.[0]?.loc.slice(1).join('.') || null;
  return { detail, error: { message, type, param, code } };
}
