import { MartingaleError } from '../../contract/index.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { causesOf, machineFaultOf } from '../machine-fault.ts';

/** How often a job may take the engine down before it counts as the job's own fault. */
export const mostEngineDeaths = 3;

const deaths = new Set(['worker_died', 'out_of_memory']);

/**
 * What ended the run of a job: `machine`, which will pass; `engine`, which broke down and may have been brought down
 * by the job; or `job`, which would fail again.
 */
export type JobFault = { type: 'machine' | 'engine'; fault: ServiceError } | { type: 'job' };

export function jobFaultOf(error: unknown): JobFault {
  // The engine's own words may stand inside those of whoever prepared the job.
  const codes = [...causesOf(error)].flatMap((cause) =>
    MartingaleError.isInstance(cause) ? [cause.code] : [],
  );
  const death = codes.find((code) => deaths.has(code));
  const fault = machineFaultOf(error);
  if (death !== undefined && fault === null) return { type: 'engine', fault: unavailable(death, error) };
  if (codes.includes('engine_closed')) return { type: 'machine', fault: unavailable('engine_closed', error) };
  return fault === null ? { type: 'job' } : { type: 'machine', fault };
}

/** What keeps the queue from working, whatever it is. */
export function queueFaultOf(error: unknown): ServiceError {
  return machineFaultOf(error) ?? unavailable('training_queue_failed', error);
}

const unavailable = (code: string, cause: unknown) =>
  new ServiceError(503, code, messageOf(cause), { cause });
