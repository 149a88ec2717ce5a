import { MartingaleError } from '../../contract/index.ts';
import { EngineError } from '../engine-error.ts';
import type { WorkerFailure } from './worker-messages.ts';

/** What V8 and the runtime say when an allocation fails. Neither gives it a code. */
const outOfMemory = /bad_alloc|bad allocation|failed to allocate memory|allocation failed|out of memory/i;

const outOfMemoryMessage = (message: string) =>
  `an engine thread could not get the memory that it needs (${message}); ask again, or for less at once`;

/** An error as a worker thread sends it. */
export function toFailure(error: unknown): WorkerFailure {
  const systemCode = systemCodeOf(error);
  const system = systemCode === undefined ? {} : { systemCode };
  if (MartingaleError.isInstance(error)) return { code: error.code, message: error.message, ...system };
  const message = error instanceof Error ? error.message : String(error);
  if (systemCode === undefined && outOfMemory.test(message))
    return { code: 'out_of_memory', message: outOfMemoryMessage(message) };
  return { code: 'engine_failed', message, ...system };
}

export function fromFailure({ code, message, systemCode }: WorkerFailure): EngineError {
  if (systemCode === undefined) return new EngineError(code, message);
  return new EngineError(code, message, { cause: Object.assign(new Error(message), { code: systemCode }) });
}

/** The code of the system call that failed, be it the error itself or what caused it. */
function systemCodeOf(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if ('syscall' in cause && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return undefined;
}
