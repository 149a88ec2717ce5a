import { MartingaleError } from '../../contract/index.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { causesOf, machineFaultOf } from '../faults.ts';
import type { ServiceLog } from '../log.ts';

/** The first pause; each further one is twice as long, up to the longest. */
export const firstPauseMs = 250;
export const longestPauseMs = 30_000;

/** What a queue says, and how it waits, while work fails for no fault of its own, until it works again. */
export class Recovery {
  readonly #log: ServiceLog;
  readonly #told = new Set<(fault: ServiceError) => void>();
  #fault: ServiceError | null = null;
  #pauses = 0;
  #wake = () => {};
  #closed = false;

  constructor(log: ServiceLog) {
    this.#log = log;
  }

  /** What it waits to pass; null while all is well. */
  get fault(): ServiceError | null {
    return this.#fault;
  }

  /** Says that something waits: a job, or with null the queue itself. */
  tell(fault: ServiceError, { job, pauseMs }: { job: string | null; pauseMs: number }): void {
    this.#fault = fault;
    const { code, message } = fault;
    const error = fault.cause instanceof Error ? fault.cause.message : message;
    this.#log({ level: 'error', event: 'training_queue_waits', code, error, job, pauseMs });
    for (const told of this.#told) told(fault);
  }

  /** Waits for so long, or until it is to be tried now, and is known to wait for the fault to pass. */
  async wait(fault: ServiceError, pauseMs: number): Promise<void> {
    if (this.#closed) return;
    this.#fault = fault;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, pauseMs);
    await promise;
    clearTimeout(timer);
  }

  /** Says so and waits, longer each time. */
  async pause(fault: ServiceError, job: string | null): Promise<void> {
    if (this.#closed) return;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#pauses++);
    this.tell(fault, { job, pauseMs });
    await this.wait(fault, pauseMs);
  }

  /** Ends the pause, if there is one. */
  tryNow(): void {
    this.#wake();
  }

  /** The work is done: the next fault begins with the first pause. */
  over(): void {
    this.#pauses = 0;
    this.works();
  }

  /** It is at work again. */
  works(): void {
    if (this.#fault) this.#log({ level: 'info', event: 'training_queue_goes_on', code: this.#fault.code });
    this.#fault = null;
  }

  /** Ends the pause, and lets none begin. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Resolves with `work`; rejects with the next fault where one comes first, and with `late` where it takes longer. */
  async unlessFault(
    work: Promise<void>,
    { timeoutMs, late }: { timeoutMs: number; late: ServiceError },
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => reject(late), timeoutMs);
    this.#told.add(reject);
    work.then(resolve, reject);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#told.delete(reject);
    }
  }
}

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
