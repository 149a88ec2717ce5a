import { messageOf, ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';
import type { JobOutcome, JobRecord } from '../store/store.ts';
import { traceJob } from '../telemetry.ts';
import { jobFaultOf, mostEngineDeaths, queueFaultOf } from './job-fault.ts';
import { Recovery } from './recovery.ts';
import { type TrainJobDependencies, trainJob } from './train-job.ts';

export interface JobQueueOptions extends Omit<TrainJobDependencies, 'onBegin'> {
  /** Called when a model has a new checkpoint. */
  onCheckpoint: (modelId: string) => void;
  log: ServiceLog;
}

/** The job that the queue is at: it runs, or waits for the machine to let it. */
interface CurrentJob {
  id: string;
  /** Why it is to stop; null while it is to go on. */
  asked: 'cancelled' | 'shutdown' | null;
  /** Of the run in progress. */
  controller: AbortController;
  /** How often the engine broke down under it. */
  engineDeaths: number;
  ended: Promise<void>;
}

/**
 * Runs training jobs one at a time, oldest first: an engine trains one model at a time, and the jobs of a model
 * build on each other. A job that a shutdown or a crash cut short is queued again and runs anew from its payload.
 *
 * So does one that the machine cuts short, such as a full disk: after a pause, each twice as long as the one before up
 * to 30 s, for as long as it takes, or when the next job comes. An engine that breaks down under a job gets
 * three tries at it. A job that has been trained is not trained again because its end could not be written.
 */
export class JobQueue {
  readonly #options: JobQueueOptions;
  readonly #recovery: Recovery;
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
    this.#recovery.tryNow();
    if (this.#pumping || this.#closed) return;
    this.#pumping = true;
    this.#pump = this.#runAll();
  }

  /** Rejects with what keeps the queue from running jobs. */
  async check(): Promise<void> {
    if (this.#closed) throw new ServiceError(503, 'shutting_down', 'The training queue is shutting down.');
    if (this.#recovery.fault) throw this.#recovery.fault;
    await this.#options.store.unfinishedJobs();
  }

  /**
   * Ends a queued or running job as cancelled; resolves once it has ended. Does nothing to one that had. Rejects where
   * the machine keeps it from being written; a job that ran is then cancelled as soon as it can be.
   */
  async cancel(jobId: string): Promise<void> {
    const job = await this.#options.store.job(jobId);
    // Looked at after the store was asked: the job may have begun meanwhile.
    const current = this.#current;
    if (current?.id === jobId) {
      this.#stop(current, 'cancelled');
      const ended = this.#recovery.unlessFault(current.ended);
      this.#recovery.tryNow();
      return ended;
    }
    if (!job || job.endedAt !== null) return;
    await this.#finish(job, { status: 'cancelled', errorMessage: 'The job was cancelled before it began.' });
  }

  /** Stops; the running job goes back into the queue. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#current) this.#stop(this.#current, 'shutdown');
    this.#recovery.close();
    await this.#pump;
  }

  #stop(current: CurrentJob, reason: 'cancelled' | 'shutdown'): void {
    current.asked ??= reason;
    current.controller.abort(current.asked);
  }

  async #runAll(): Promise<void> {
    while (this.#woken && !this.#closed) {
      this.#woken = false;
      try {
        const [job] = await this.#options.store.unfinishedJobs();
        // Closed meanwhile, when there was no running job to abort yet.
        if (job && !this.#closed) {
          await this.#run(job);
          this.#woken = true;
        }
        this.#recovery.over();
      } catch (error) {
        this.#woken = true;
        await this.#recovery.pause(queueFaultOf(error), null);
      }
    }
    this.#pumping = false;
  }

  async #run(job: JobRecord): Promise<void> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const current: CurrentJob = {
      ...{ id: job.id, asked: null, engineDeaths: 0, ended },
      controller: new AbortController(),
    };
    this.#current = current;
    try {
      await this.#bringToEnd(job, current);
    } finally {
      this.#current = null;
      resolve();
    }
  }

  async #bringToEnd(job: JobRecord, current: CurrentJob): Promise<void> {
    const { store } = this.#options;
    let outcome: JobOutcome | null = null;
    do {
      try {
        // Cancelled since the queue was read.
        if ((await store.job(job.id))?.endedAt !== null) return;
        outcome ??= await this.#outcomeOf(job, current);
        await this.#finish(job, outcome);
        return;
      } catch (error) {
        // Where even this cannot be written, the job is known as running until it can, or until the next start.
        await store.requeueJob(job.id).catch(() => undefined);
        if (this.#closed) return;
        const found = jobFaultOf(error);
        await this.#recovery.pause(found.type === 'job' ? queueFaultOf(error) : found.fault, job.id);
      }
    } while (!this.#closed);
  }

  /** Trains the job. Rejects where it is to be tried again. */
  async #outcomeOf(job: JobRecord, current: CurrentJob): Promise<JobOutcome> {
    if (current.asked === 'cancelled') return cancelled;
    current.controller = new AbortController();
    const onBegin = () => this.#recovery.works();
    try {
      const checkpoint = await traceJob(job, () =>
        trainJob({ ...this.#options, onBegin }, job, current.controller),
      );
      return { status: 'succeeded', checkpoint };
    } catch (error) {
      const asked = reasonToStop(current);
      if (asked === 'cancelled') return cancelled;
      if (asked === 'shutdown') throw error;
      const { type } = jobFaultOf(error);
      if (type === 'job') return { status: 'failed', errorMessage: messageOf(error) };
      if (type === 'engine' && ++current.engineDeaths >= mostEngineDeaths)
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
    if (outcome.status === 'succeeded') onCheckpoint(job.modelId);
    await this.#removePayload(job.id);
    if (outcome.status === 'succeeded')
      log({ level: 'info', event: 'job_succeeded', job: job.id, step: outcome.checkpoint.step });
    else log({ level: 'warn', event: `job_${outcome.status}`, job: job.id, error: outcome.errorMessage });
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
