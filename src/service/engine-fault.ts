import { EngineError } from '../engines/engine-error.ts';
import { LanguageError } from '../language/error.ts';
import type { ErrorStatus } from './errors.ts';

/** Errors of an engine that are not about what was asked. Their messages speak of the inside of the service. */
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

/** Errors of an engine that the caller is told nothing of. */
export const internalFaults: ReadonlySet<string> = new Set(['bad_checkpoint', 'engine_failed']);

/** Whether something has happened to the engine; else it says what is wrong with what it was asked. */
export function isEngineFault(error: unknown): error is EngineError | LanguageError {
  return (
    (error instanceof EngineError || error instanceof LanguageError) &&
    (Object.hasOwn(engineFaults, error.code) || internalFaults.has(error.code))
  );
}
