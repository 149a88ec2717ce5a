import { messageOf, ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';
import type { JobOutcome, JobRecord, WaitingJob } from '../store/store.ts';
import { traceJob } from '../telemetry.ts';
import { JobOrder, type NextJob } from './job-order.ts';
import {
  jobFaultOf,
  lostRunsMessage,
  mostEngineDeaths,
  mostLostRuns,
  queueFaultOf,
  Recovery,
} from './recovery.ts';
import { type TrainJobDependencies, trainJob } from './train-job.ts';

export interface JobQueueOptions extends Omit<TrainJobDependencies, 'onBegin'> {
  /** Called when a model has a new checkpoint. */
  onCheckpoint: (modelId: string) => void;
  /** How long a cancellation waits for the engine to leave what it is at. Default 30,000. */
  cancelTimeoutMs?: number;
  log: ServiceLog;
}

/** The job that runs. */
interface CurrentJob extends WaitingJob {
  /** Why it is to stop; null while it is to go on. */
  asked: 'cancelled' | 'shutdown' | null;
  /** Of the run in progress. */
  controller: AbortController;
  /** It has ended, or does not run any more. */
  left: Promise<void>;
}

/**
 * Runs training jobs one at a time, since an engine trains one model at a time: the models take turns, and the jobs of
 * a model, which build on each other, run in their order. A job that a shutdown or a crash cut short is queued again
 * and runs anew from its payload.
 *
 * So does one that the machine cuts short, such as a full disk: after a pause, each twice as long as the one before up
 * to 30 s, for as long as it takes, or when the next job comes; meanwhile the other models go on. An engine that
 * breaks down under a job gets three tries at it. A job whose runs end the whole process is let go after eight that
 * got no further. A job that has been trained is not trained again because its end could not be written.
 */
export class JobQueue {
  readonly #options: JobQueueOptions;
  readonly #recovery: Recovery;
  #order: JobOrder | null = null;
  #current: CurrentJob | null = null;
  #closed = false;
  #pump: Promise<void> = Promise.resolve();
  #pumping = false;
  /** A job may have come while the queue was found empty. */
  #woken = false;

  constructor(options: JobQueueOptions) {
    this.#options = options;
    this.#recovery = new Recovery(options.log);
  }

  /** Looks for queued jobs. Returns at once. */
  wake(): void {
    this.#woken = true;
    this.#order?.tryNow();
    this.#recovery.tryNow();
    if (this.#pumping || this.#closed) return;
    this.#pumping = true;
    this.#pump = this.#runAll();
  }

  /** Rejects with what keeps the queue from running jobs. */
  async check(): Promise<void> {
    if (this.#closed) throw new ServiceError(503, 'shutting_down', 'The training queue is shutting down.');
    if (this.#recovery.fault) throw this.#recovery.fault;
    await this.#options.store.newestJob();
  }

  /**
   * Ends a queued or running job as cancelled; resolves once it has ended. Does nothing to one that had. Rejects where
   * the machine keeps it from being written, or the engine does not leave the job in time; a job that ran is then
   * cancelled as soon as it can be.
   */
  async cancel(jobId: string): Promise<void> {
    const job = await this.#options.store.job(jobId);
    // Looked at after the store was asked: the job may have begun meanwhile.
    const current = this.#current;
    if (current?.id === jobId) {
      this.#stop(current, 'cancelled');
      const left = this.#recovery.unlessFault(current.left, this.#stillRuns(jobId));
      this.#recovery.tryNow();
      await left;
      // It may have been set aside just before.
      return this.cancel(jobId);
    }
    if (!job || job.endedAt !== null) return;
    await this.#finish(job, { status: 'cancelled', errorMessage: 'The job was cancelled before it began.' });
    // The queue may have waited for it.
    this.#recovery.tryNow();
  }

  /** Stops; the running job goes back into the queue. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#current) this.#stop(this.#current, 'shutdown');
    this.#recovery.close();
    await this.#pump;
  }

  #stillRuns(jobId: string): { timeoutMs: number; late: ServiceError } {
    const { cancelTimeoutMs: timeoutMs = 30_000 } = this.#options;
    const message = `The job ${jobId} ends as cancelled as soon as the engine leaves the step it is in, which has taken more than ${timeoutMs} ms; ask again.`;
    return { timeoutMs, late: new ServiceError(503, 'job_still_runs', message) };
  }

  #stop(current: CurrentJob, reason: 'cancelled' | 'shutdown'): void {
    current.asked ??= reason;
    current.controller.abort(current.asked);
  }

  async #runAll(): Promise<void> {
    const { store } = this.#options;
    while (this.#woken && !this.#closed) {
      this.#woken = false;
      try {
        this.#order ??= new JobOrder({ newestAtStart: await store.newestJob() });
        const first = await store.firstJobs();
        // Closed meanwhile, when there was no running job to abort yet.
        if (this.#closed) break;
        await this.#goOn(this.#order, this.#order.next(first));
      } catch (error) {
        this.#woken = true;
        await this.#recovery.pause(queueFaultOf(error), null);
      }
    }
    this.#pumping = false;
  }

  async #goOn(order: JobOrder, next: NextJob): Promise<void> {
    if (next.type === 'nothing') return this.#recovery.over();
    this.#woken = true;
    if (next.type === 'wait') return this.#recovery.wait(next.fault, next.pauseMs);
    const { promise: left, resolve } = Promise.withResolvers<void>();
    const current: CurrentJob = { ...next.job, asked: null, controller: new AbortController(), left };
    this.#current = current;
    try {
      await this.#bringToEnd(current, order);
    } finally {
      this.#current = null;
      resolve();
    }
  }

  /** Resolves once the job has ended, is set aside, or the queue is closed. */
  async #bringToEnd(current: CurrentJob, order: JobOrder): Promise<void> {
    const { store } = this.#options;
    let outcome: JobOutcome | null = null;
    do {
      try {
        const job = await store.job(current.id);
        // Cancelled since the queue was read.
        if (job?.endedAt !== null) return;
        outcome ??= await this.#outcomeOf(job, current, order);
        await this.#finish(job, outcome);
        this.#recovery.over();
        return;
      } catch (error) {
        // Where even this cannot be written, the job is known as running until it can, or until the next start.
        await store.requeueJob(current.id).catch(() => undefined);
        if (this.#closed) return;
        const found = jobFaultOf(error);
        const fault = found.type === 'job' ? queueFaultOf(error) : found.fault;
        if (outcome === null && current.asked === null) {
          const pauseMs = order.setAside(current, fault, { engineDied: found.type === 'engine' });
          this.#recovery.tell(fault, { job: current.id, pauseMs });
          return;
        }
        await this.#recovery.pause(fault, current.id);
      }
    } while (!this.#closed);
  }

  /** Trains the job. Rejects where it is to be tried again. */
  async #outcomeOf(job: JobRecord, current: CurrentJob, order: JobOrder): Promise<JobOutcome> {
    if (current.asked === 'cancelled') return cancelled;
    if (current.lostRuns >= mostLostRuns) return { status: 'failed', errorMessage: lostRunsMessage };
    current.controller = new AbortController();
    const onBegin = () => this.#recovery.works();
    try {
      await this.#options.store.beginRun(job.id);
      return await traceJob(job, () => trainJob({ ...this.#options, onBegin }, job, current.controller));
    } catch (error) {
      const asked = reasonToStop(current);
      if (asked === 'cancelled') return cancelled;
      if (asked === 'shutdown') throw error;
      const { type } = jobFaultOf(error);
      if (type === 'job') return { status: 'failed', errorMessage: messageOf(error) };
      if (type === 'engine' && order.engineDeaths(current) + 1 >= mostEngineDeaths)
        return {
          status: 'failed',
          errorMessage: `The engine broke down in each of ${mostEngineDeaths} runs of the job: ${messageOf(error)}`,
        };
      throw error;
    }
  }

  async #finish(job: JobRecord, outcome: JobOutcome): Promise<void> {
    const { events, onCheckpoint, log } = this.#options;
    const finished = await events.finish(job.id, outcome);
    this.#recovery.works();
    if (!finished) return;
    if (outcome.status === 'succeeded' && !outcome.untrained) onCheckpoint(job.modelId);
    await this.#removePayload(job.id);
    if (outcome.status === 'succeeded') {
      const { checkpoint, untrained } = outcome;
      const common = { job: job.id, step: checkpoint.step };
      if (untrained) log({ level: 'warn', event: 'job_untrained', ...common, reason: untrained.reason });
      else log({ level: 'info', event: 'job_succeeded', ...common });
    } else log({ level: 'warn', event: `job_${outcome.status}`, job: job.id, error: outcome.errorMessage });
  }

  /** One that stays is removed at the next start; the job has ended all the same. */
  async #removePayload(jobId: string): Promise<void> {
    try {
      await this.#options.files.removePayload(jobId);
    } catch (error) {
      this.#options.log({ level: 'warn', event: 'payload_kept', job: jobId, error: messageOf(error) });
    }
  }
}

const cancelled: JobOutcome = { status: 'cancelled', errorMessage: 'The job was cancelled while it ran.' };

// A function, since it changes while the job is awaited, which narrowing does not see.
const reasonToStop = ({ asked }: CurrentJob) => asked;
