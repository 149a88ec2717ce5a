import { MartingaleError } from '../../contract/index.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { causesOf, machineFaultOf } from '../faults.ts';

/** How often a job may take the engine down before it counts as the job's own fault. */
export const mostEngineDeaths = 3;

/**
 * How many runs of a job, one after another, may go with the process without a further gradient step. Whoever kills
 * the service at random gets a step in between; a job that ends it does not.
 */
export const mostLostRuns = 8;

/** What a job is failed with that has lost so many. */
export const lostRunsMessage = `The whole service ended in each of the last ${mostLostRuns} runs of the job before it told a further gradient step: killed by the system, for its memory perhaps, or by a fault in a native library. The logs of the system and of the service say why; then send the job again, with fewer or shorter trajectories or examples, or to a machine with more memory.`;

const deaths = new Set(['worker_died', 'out_of_memory']);
const passing = new Set(['engine_closed', 'constraints_busy']);

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
  const refusals = [...causesOf(error)].filter((cause) => cause instanceof ServiceError);
  const busy = codes.find((code) => passing.has(code)) ?? refusals.find(({ status }) => status === 503)?.code;
  if (fault !== null) return { type: 'machine', fault };
  return busy === undefined ? { type: 'job' } : { type: 'machine', fault: unavailable(busy, error) };
}

/** What keeps the queue from working, whatever it is. */
export function queueFaultOf(error: unknown): ServiceError {
  return machineFaultOf(error) ?? unavailable('training_queue_failed', error);
}

const unavailable = (code: string, cause: unknown) =>
  new ServiceError(503, code, messageOf(cause), { cause });
