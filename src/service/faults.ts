import { EngineError } from '../engines/engine.ts';
import { LanguageError } from '../language/error.ts';
import { type ErrorStatus, ServiceError } from './errors.ts';

/** A fault of the machine that no request or job can do anything about. */
export type FaultCode =
  | 'storage_full'
  | 'storage_read_only'
  | 'storage_failed'
  | 'too_many_files'
  | 'out_of_memory';

const messages: Record<FaultCode, string> = {
  storage_full:
    'The disk that the service keeps its data on is full, so this could not be done; ask again once there is room.',
  storage_read_only:
    'The service is not allowed to write its data just now (a read-only disk, or permissions), so this could not be done; ask again once it is.',
  storage_failed:
    'The disk that the service keeps its data on answers with an error, so this could not be done; ask again.',
  too_many_files:
    'The service has as many files and connections open as the system lets it have, so this could not be done; ask again.',
  out_of_memory: 'The machine has no memory left for this; ask again.',
};

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

/**
 * Engine errors that the request did not cause. Their own messages describe internals, so these replace
 * them.
 */
export const engineFaults: Readonly<Record<string, { status: ErrorStatus; message: string }>> = {
  checkpoint_missing: {
    status: 404,
    message: 'The checkpoint was deleted while the request was on its way.',
  },
  engine_closed: { status: 503, message: 'The service is shutting down.' },
  worker_died: { status: 503, message: 'The engine stopped in the middle of the request; ask again.' },
  constraints_busy: {
    status: 503,
    message:
      'Too many constraints (tools, response_format, structured_outputs) are waiting to be compiled; ask again, and send fewer new ones at a time.',
  },
  out_of_memory: { status: 503, message: 'The engine has no memory left for the request; ask again.' },
};

/** Engine errors that the caller sees only as an internal error. */
export const internalFaults: ReadonlySet<string> = new Set(['bad_checkpoint', 'engine_failed']);

/** Whether the engine itself failed, as opposed to refusing a request. */
export function isEngineFault(error: unknown): error is EngineError | LanguageError {
  return (
    (error instanceof EngineError || error instanceof LanguageError) &&
    (Object.hasOwn(engineFaults, error.code) || internalFaults.has(error.code))
  );
}
