import { randomUUID } from 'node:crypto';
import type { Engine } from '../../engines/engine.ts';
import { messageOf, ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';
import type { DataFiles } from '../store/files.ts';
import type { CheckpointRecord, JobRecord, ModelRecord, Store } from '../store/store.ts';
import { traceJob } from '../telemetry.ts';
import type { JobEvents } from './job-events.ts';
import type { PreparedJob } from './prepared-job.ts';
import { StepRecorder } from './step-recorder.ts';

export interface JobQueueOptions {
  engine: Engine;
  store: Store;
  files: DataFiles;
  events: JobEvents;
  /** Turns a job's payload into batches. What is wrong with it rejects, and fails the job with that message. */
  prepare: (job: JobRecord, model: ModelRecord, signal: AbortSignal) => Promise<PreparedJob>;
  /** Called when a model has a new checkpoint. */
  onCheckpoint: (modelId: string) => void;
  log: ServiceLog;
}

interface RunningJob {
  id: string;
  controller: AbortController;
  ended: Promise<void>;
}

/** Why a running job was aborted. */
type Abortion = 'cancelled' | 'shutdown';

/**
 * Runs training jobs one at a time, oldest first: an engine trains one model at a time, and the jobs of a model
 * build on each other. A job that a shutdown or a crash cut short is queued again and runs anew from its payload.
 */
export class JobQueue {
  readonly #options: JobQueueOptions;
  #running: RunningJob | null = null;
  #closed = false;
  #pump: Promise<void> = Promise.resolve();
  #pumping = false;
  /** A job may have come while the queue was found empty. */
  #woken = false;
  /** What stopped the queue; jobs that wait go on at the next one that comes. */
  #failure: Error | null = null;

  constructor(options: JobQueueOptions) {
    this.#options = options;
  }

  /** Looks for queued jobs. Returns at once. */
  wake(): void {
    this.#woken = true;
    if (this.#pumping || this.#closed) return;
    this.#pumping = true;
    this.#failure = null;
    this.#pump = this.#runAll();
  }

  /** Rejects when the queue can run nothing. */
  async check(): Promise<void> {
    if (this.#closed) throw new ServiceError(503, 'shutting_down', 'The training queue is shutting down.');
    if (this.#failure) throw this.#failure;
    await this.#options.store.unfinishedJobs();
  }

  /** Ends a queued or running job as cancelled; resolves once it has ended. Does nothing to one that had. */
  async cancel(jobId: string): Promise<void> {
    const job = await this.#options.store.job(jobId);
    // Looked at after the store was asked: the job may have begun meanwhile.
    const running = this.#running;
    if (running?.id === jobId) {
      running.controller.abort('cancelled' satisfies Abortion);
      await running.ended;
      return;
    }
    if (job?.status !== 'queued') return;
    await this.#end(jobId, { status: 'cancelled', errorMessage: 'The job was cancelled before it began.' });
  }

  /** Stops; the running job goes back into the queue. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#running?.controller.abort('shutdown' satisfies Abortion);
    await this.#pump;
  }

  async #runAll(): Promise<void> {
    try {
      while (this.#woken && !this.#closed) {
        this.#woken = false;
        const [job] = await this.#options.store.unfinishedJobs();
        // Closed meanwhile, when there was no running job to abort yet.
        if (!job || this.#closed) continue;
        await this.#run(job);
        this.#woken = true;
      }
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(messageOf(error));
      this.#options.log({ level: 'error', event: 'training_queue_stopped', error: messageOf(error) });
    } finally {
      this.#pumping = false;
    }
  }

  async #run(job: JobRecord): Promise<void> {
    const controller = new AbortController();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#running = { id: job.id, controller, ended };
    try {
      // Cancelled since the queue was read.
      if ((await this.#options.store.job(job.id))?.endedAt !== null) return;
      const checkpoint = await traceJob(job, () => this.#train(job, controller));
      await this.#options.events.finish(job.id, { status: 'succeeded', checkpoint });
      this.#options.onCheckpoint(job.modelId);
      await this.#removePayload(job.id);
      this.#options.log({ level: 'info', event: 'job_succeeded', job: job.id, step: checkpoint.step });
    } catch (error) {
      if (controller.signal.reason === 'shutdown') await this.#options.store.requeueJob(job.id);
      else if (controller.signal.reason === 'cancelled')
        await this.#end(job.id, { status: 'cancelled', errorMessage: 'The job was cancelled while it ran.' });
      else await this.#end(job.id, { status: 'failed', errorMessage: messageOf(error) });
    } finally {
      this.#running = null;
      resolve();
    }
  }

  async #end(
    jobId: string,
    outcome: { status: 'failed' | 'cancelled'; errorMessage: string },
  ): Promise<void> {
    if (!(await this.#options.events.finish(jobId, outcome))) return;
    await this.#removePayload(jobId);
    this.#options.log({
      level: 'warn',
      event: `job_${outcome.status}`,
      job: jobId,
      error: outcome.errorMessage,
    });
  }

  /** One that stays is removed at the next start; the job has ended all the same. */
  async #removePayload(jobId: string): Promise<void> {
    try {
      await this.#options.files.removePayload(jobId);
    } catch (error) {
      this.#options.log({ level: 'warn', event: 'payload_kept', job: jobId, error: messageOf(error) });
    }
  }

  async #train(job: JobRecord, controller: AbortController): Promise<CheckpointRecord> {
    const { engine, store, files, prepare } = this.#options;
    const { signal } = controller;
    const model = await store.model(job.modelId);
    const from = await store.newestCheckpoint(job.modelId);
    if (!model || !from) throw new ServiceError(404, 'model_not_found', 'The job has no model to train.');
    const prepared = await prepare(job, model, signal);
    signal.throwIfAborted();
    const step = model.lastStep + 1;
    const folder = files.checkpointFolder(model.id, step);
    await files.clearCheckpoint(folder);
    const recorder = await this.#begin(job, prepared, controller);
    try {
      await engine.train({
        from: {
          baseModel: model.baseModel,
          folder: from.folder === null ? null : files.absolute(from.folder),
        },
        folder: files.absolute(folder),
        batches: recorder.counted(prepared.batches),
        onStep: (metrics) => recorder.record(metrics),
        signal,
      });
      await recorder.written();
      signal.throwIfAborted();
    } catch (error) {
      await files.clearCheckpoint(folder);
      throw error;
    }
    const createdAt = new Date().toISOString();
    return { id: randomUUID(), modelId: model.id, step, folder, metrics: recorder.last, createdAt };
  }

  /**
   * Sets the job running. A job that runs again has told of its beginning and of some steps: these are not told
   * twice, so that whoever follows the events sees each step once.
   */
  async #begin(job: JobRecord, prepared: PreparedJob, controller: AbortController): Promise<StepRecorder> {
    const { store, events } = this.#options;
    const told = (await store.countEvents(job.id, 'training_started')) > 0;
    await events.start(
      job.id,
      told ? null : { type: 'training_started', data: { num_sequences: prepared.steps } },
    );
    const toldSteps = await store.countEvents(job.id, 'gradient_step');
    return new StepRecorder(events, job.id, toldSteps, (error) => controller.abort(error));
  }
}
