/*
 * What always holds of the queue:
 * - One job runs at a time, and the jobs of a model in their order.
 * - A job ends once, and its end is in the store before anybody hears of it.
 * - What stops a run without ending its job (shutdown, crash, fault of the machine) queues the job again.
 * - A cancellation resolves when the job has ended: as cancelled, or as it had ended by then.
 */
import { messageOf, ServiceError } from '../errors.ts';
import { lostRunsMessage, maxLost } from '../store/lost-runs.ts';
import type { JobOutcome, JobRecord, WaitingJob } from '../store/store.ts';
import type { ServiceLog } from '../telemetry.ts';
import { JobOrder, type NextJob } from './job-order.ts';
import { jobFaultOf, maxEngineDeaths, queueFaultOf, Recovery } from './recovery.ts';
import { type TrainJobDependencies, traceJob, trainJob } from './train-job.ts';

interface JobQueueOptions extends Omit<TrainJobDependencies, 'onBegin'> {
  /** Called when a job has ended. */
  onEnd?: (jobId: string) => void;
  /** Called when a model has a new checkpoint. */
  onCheckpoint: (modelId: string) => void;
  /** How long a cancellation waits for the engine to end its current step. Default 30,000. */
  cancelTimeoutMs?: number;
  log: ServiceLog;
}

const noteEveryMs = 2000;

/** The running job. */
interface CurrentJob extends WaitingJob {
  /** Why it must stop; null while it may run. */
  stopReason: 'cancelled' | 'shutdown' | null;
  /** Aborts the run in progress. */
  controller: AbortController;
  /** Resolves when the job has ended or stopped running. */
  ended: Promise<void>;
}

/**
 * Runs training jobs one at a time, since an engine trains one model at a time. The models take turns; the jobs of a
 * model build on each other and run in order. A job that a shutdown or a crash interrupts is queued again and starts
 * over from its payload.
 *
 * So does a job that a fault of the machine interrupts, such as a full disk. It is tried again without limit, after
 * pauses that double up to 30 s, or when a new job arrives; meanwhile the other models' jobs run. A job fails when the
 * engine has died in three of its runs, or when runs without a further gradient step ended the whole process as often as
 * `lost-runs.ts` says. If only the end of a trained job cannot be written, writing it is tried again, not the training.
 */
export class JobQueue {
  readonly #options: JobQueueOptions;
  readonly #recovery: Recovery;
  #order: JobOrder | null = null;
  #current: CurrentJob | null = null;
  #closed = false;
  #pump: Promise<void> = Promise.resolve();
  #pumping = false;
  /** Set when a job may have arrived since the queue was last read. */
  #woken = false;

  constructor(options: JobQueueOptions) {
    this.#options = options;
    this.#recovery = new Recovery(options.log);
  }

  /** Starts to run queued jobs, and ends all pauses. Returns at once. */
  wake(): void {
    this.#woken = true;
    this.#order?.tryNow();
    this.#recovery.tryNow();
    if (this.#pumping || this.#closed) return;
    this.#pumping = true;
    this.#pump = this.#runAll();
  }

  /** Rejects with the fault that keeps the queue from running jobs. */
  async check(): Promise<void> {
    if (this.#closed) throw new ServiceError(503, 'shutting_down', 'The training queue is shutting down.');
    if (this.#recovery.fault) throw this.#recovery.fault;
    await this.#options.store.newestJob();
  }

  /**
   * Cancels a queued or running job; resolves once it has ended. Does nothing when the job has already ended. Rejects
   * when a fault of the machine prevents writing this, or when the engine does not end its step in time; a running job
   * is then still cancelled as soon as possible.
   */
  async cancel(jobId: string): Promise<void> {
    const job = await this.#options.store.job(jobId);
    // Read after the store, because the job may have begun meanwhile.
    const current = this.#current;
    if (current?.id === jobId) {
      this.#stop(current, 'cancelled');
      const ended = this.#recovery.unlessFault(current.ended, this.#stillRuns(jobId));
      this.#recovery.tryNow();
      await ended;
      // The job may have been set aside just before, so that it has not ended yet.
      return this.cancel(jobId);
    }
    if (!job || job.endedAt !== null) return;
    await this.#finish(job, { status: 'cancelled', errorMessage: 'The job was cancelled before it began.' });
    // The queue may be pausing because of this job.
    this.#recovery.tryNow();
  }

  /** Stops the queue. The running job is queued again for the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    // Known even if the process is killed before the run has ended.
    await this.#options.store.closeRuns().catch(() => undefined);
    if (this.#current) this.#stop(this.#current, 'shutdown');
    this.#recovery.close();
    await this.#pump;
  }

  #stillRuns(jobId: string): { timeoutMs: number; late: ServiceError } {
    const { cancelTimeoutMs: timeoutMs = 30_000 } = this.#options;
    const message = `The job ${jobId} is being cancelled: its current step has taken more than ${timeoutMs} ms. Retry later.`;
    return { timeoutMs, late: new ServiceError(503, 'job_still_runs', message) };
  }

  #stop(current: CurrentJob, reason: 'cancelled' | 'shutdown'): void {
    current.stopReason ??= reason;
    current.controller.abort(current.stopReason);
  }

  async #runAll(): Promise<void> {
    const { store } = this.#options;
    while (this.#woken && !this.#closed) {
      this.#woken = false;
      try {
        this.#order ??= new JobOrder({ newestAtStart: await store.newestJob() });
        const first = await store.firstJobs();
        // The queue may have been closed meanwhile, when there was no running job to abort.
        if (this.#closed) break;
        await this.#runNext(this.#order, this.#order.next(first));
      } catch (error) {
        this.#woken = true;
        await this.#recovery.pause(queueFaultOf(error), null);
      }
    }
    this.#pumping = false;
  }

  async #runNext(order: JobOrder, next: NextJob): Promise<void> {
    if (next.type === 'nothing') return this.#recovery.succeed();
    this.#woken = true;
    if (next.type === 'wait') return this.#recovery.wait(next.fault, next.pauseMs);
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const current: CurrentJob = { ...next.job, stopReason: null, controller: new AbortController(), ended };
    this.#current = current;
    try {
      await this.#runJob(current, order);
    } finally {
      this.#current = null;
      resolve();
    }
  }

  /** Runs a job; resolves once it has ended or is set aside, or the queue is closed. */
  async #runJob(current: CurrentJob, order: JobOrder): Promise<void> {
    const { store } = this.#options;
    let outcome: JobOutcome | null = null;
    do {
      try {
        const job = await store.job(current.id);
        // It was cancelled after the queue was read.
        if (job?.endedAt !== null) return;
        outcome ??= await this.#outcomeOf(job, current, order);
        await this.#finish(job, outcome);
        this.#recovery.succeed();
        return;
      } catch (error) {
        // If this cannot be written either, the job stays marked as running until it can be, or until the next start.
        await store.requeueJob(current.id).catch(() => undefined);
        if (this.#closed) return;
        const found = jobFaultOf(error);
        const fault = found.type === 'job' ? queueFaultOf(error) : found.fault;
        if (outcome === null && current.stopReason === null) {
          const pauseMs = order.setAside(current, fault, { engineDied: found.type === 'engine' });
          this.#recovery.report(fault, { job: current.id, pauseMs });
          return;
        }
        await this.#recovery.pause(fault, current.id);
      }
    } while (!this.#closed);
  }

  /** Trains the job. Rejects when it must be tried again. */
  async #outcomeOf(job: JobRecord, current: CurrentJob, order: JobOrder): Promise<JobOutcome> {
    if (current.stopReason === 'cancelled') return cancelled;
    if (current.lostRuns >= maxLost) {
      const lost = await this.#options.store.lostRuns(job.id);
      if (lost) return { status: 'failed', errorMessage: lostRunsMessage(lost), reason: 'process_lost' };
    }
    current.controller = new AbortController();
    const onBegin = () => this.#recovery.clear();
    try {
      await this.#options.store.beginRun(job.id);
      const noting = this.#noteRun(job.id);
      try {
        return await traceJob(job, () => trainJob({ ...this.#options, onBegin }, job, current.controller));
      } finally {
        clearInterval(noting);
      }
    } catch (error) {
      const stopReason = stopReasonOf(current);
      if (stopReason === 'cancelled') return cancelled;
      if (stopReason === 'shutdown') throw error;
      const { type } = jobFaultOf(error);
      if (type === 'job') return { status: 'failed', errorMessage: messageOf(error) };
      if (type === 'engine' && order.engineDeaths(current) + 1 >= maxEngineDeaths)
        return {
          status: 'failed',
          errorMessage: `The engine died in each of ${maxEngineDeaths} runs of the job: ${messageOf(error)}`,
        };
      throw error;
    }
  }

  /** The start after a kill reads how long the run was. */
  #noteRun(jobId: string): NodeJS.Timeout {
    const begunAt = performance.now();
    const note = () => this.#options.store.noteRun(jobId, performance.now() - begunAt).catch(() => undefined);
    return setInterval(note, noteEveryMs).unref();
  }

  async #finish(job: JobRecord, outcome: JobOutcome): Promise<void> {
    const { events, onCheckpoint, log } = this.#options;
    const finished = await events.finish(job.id, outcome);
    this.#recovery.clear();
    if (!finished) return;
    this.#options.onEnd?.(job.id);
    if (outcome.status === 'succeeded' && !outcome.untrained) onCheckpoint(job.modelId);
    await this.#removePayload(job.id);
    if (outcome.status === 'succeeded') {
      const { checkpoint, untrained } = outcome;
      const common = { job: job.id, step: checkpoint.step };
      if (untrained) log({ level: 'warn', event: 'job_untrained', ...common, reason: untrained.reason });
      else log({ level: 'info', event: 'job_succeeded', ...common });
    } else log({ level: 'warn', event: `job_${outcome.status}`, job: job.id, error: outcome.errorMessage });
  }

  /** An error is only logged: the job has ended, and the next start removes the payload. */
  async #removePayload(jobId: string): Promise<void> {
    try {
      await this.#options.files.removePayload(jobId);
    } catch (error) {
      this.#options.log({ level: 'warn', event: 'payload_not_removed', job: jobId, error: messageOf(error) });
    }
  }
}

const cancelled: JobOutcome = { status: 'cancelled', errorMessage: 'The job was cancelled while it ran.' };

// A function, because `stopReason` changes while the job is awaited, which type narrowing does not see.
const stopReasonOf = ({ stopReason }: CurrentJob) => stopReason;
