import { EngineError } from '../engine-error.ts';
import type { WorkerFailure } from './worker-messages.ts';

/** An error as a worker thread sends it. */
export function toFailure(error: unknown): WorkerFailure {
  if (EngineError.isInstance(error)) return { code: error.code, message: error.message };
  return { code: 'engine_failed', message: error instanceof Error ? error.message : String(error) };
}

export function fromFailure({ code, message }: WorkerFailure): EngineError {
  return new EngineError(code, message);
}
