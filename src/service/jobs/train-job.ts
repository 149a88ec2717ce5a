import { randomUUID } from 'node:crypto';
import type { Untrained } from '../../contract/index.ts';
import type { Engine, TrainingBatch } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, JobSuccess, ModelRecord, Store } from '../store/store.ts';
import type { JobEvents } from './job-events.ts';

export interface TrainJobDependencies {
  engine: Engine;
  store: Store;
  files: DataFiles;
  events: JobEvents;
  /** Turns a job's payload into batches. Rejects when the payload is invalid; the job fails with that message. */
  prepare: (job: JobRecord, model: ModelRecord, signal: AbortSignal) => Promise<PreparedJob>;
  /** Called once the start of the job is stored. */
  onBegin: () => void;
}

/** Runs a job from its beginning. Writes the weights of the new checkpoint, but not its record. */
export async function trainJob(
  { engine, store, files, events, prepare, onBegin }: TrainJobDependencies,
  job: JobRecord,
  controller: AbortController,
): Promise<JobSuccess> {
  const { signal } = controller;
  const model = await store.model(job.modelId);
  const from = await store.newestCheckpoint(job.modelId);
  if (!model || !from) throw new ServiceError(404, 'model_not_found', 'The job has no model to train.');
  const prepared = await prepare(job, model, signal);
  signal.throwIfAborted();
  if ('untrained' in prepared) {
    await begin({ store, events }, job, 0);
    onBegin();
    return { status: 'succeeded', checkpoint: from, untrained: prepared.untrained };
  }
  const step = model.lastStep + 1;
  const folder = files.checkpointFolder(model.id, step);
  await files.clearCheckpoint(folder);
  await begin({ store, events }, job, prepared.steps);
  const toldSteps = await store.countEvents(job.id, 'gradient_step');
  const recorder = new StepRecorder(events, job.id, toldSteps, (error) => controller.abort(error));
  onBegin();
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
    // The next run counts these events before it adds its own.
    await recorder.written().catch(() => undefined);
    // On failure the next run or the next start clears the folder; the training's error matters more.
    await files.clearCheckpoint(folder).catch(() => undefined);
    throw error;
  }
  const createdAt = new Date().toISOString();
  const metrics = prepared.keepsMetrics === false ? {} : recorder.last;
  const made = { id: randomUUID(), modelId: model.id, step, folder, metrics, createdAt };
  return { status: 'succeeded', checkpoint: made, untrained: null };
}

/**
 * Marks the job as running. A job that runs again already has a `training_started` event and gets no second one.
 */
async function begin(
  { store, events }: Pick<TrainJobDependencies, 'store' | 'events'>,
  job: JobRecord,
  steps: number,
): Promise<void> {
  const told = (await store.countEvents(job.id, 'training_started')) > 0;
  await events.start(job.id, told ? null : { type: 'training_started', data: { num_sequences: steps } });
}

/** Stores the `gradient_step` events of one run of a job, in order, except those that an earlier run stored. */
export class StepRecorder {
  /** Metrics of the last step so far. */
  last: Record<string, number> = {};
  readonly #events: JobEvents;
  readonly #jobId: string;
  readonly #fail: (error: unknown) => void;
  readonly #counts: Record<string, number>[] = [];
  #untold: number;
  #writing: Promise<void> = Promise.resolve();

  constructor(events: JobEvents, jobId: string, toldSteps: number, fail: (error: unknown) => void) {
    this.#events = events;
    this.#jobId = jobId;
    this.#untold = -toldSteps;
    this.#fail = fail;
  }

  async *counted(batches: AsyncIterable<CountedBatch>) {
    for await (const { batch, counts } of batches) {
      this.#counts.push({ ...counts, learning_rate: batch.learningRate });
      yield batch;
    }
  }

  record(metrics: Record<string, number>): void {
    const data = { ...metrics, ...this.#counts.shift() };
    // JSON has no NaN: it would arrive as null.
    this.last = Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value)));
    if (this.#untold++ < 0) return;
    const event = { type: 'gradient_step', data: this.last } as const;
    this.#writing = this.#writing.then(() => this.#events.append(this.#jobId, event));
    this.#writing.catch(this.#fail);
  }

  async written(): Promise<void> {
    await this.#writing;
  }
}

/** A batch, and the counts that the service adds to the engine's metrics in its `gradient_step` event. */
export interface CountedBatch {
  batch: TrainingBatch;
  counts: Record<string, number>;
}

/** The batches of a job. */
export interface PreparedTraining {
  /** Whether the checkpoint stores the metrics of the last step. Default true. */
  keepsMetrics?: boolean;
  /** Number of gradient steps. */
  steps: number;
  /** Made one at a time, when the engine needs them. */
  batches: AsyncIterable<CountedBatch>;
}

/** A job that is ready to run: its batches, or why there is nothing to train on. */
export type PreparedJob = PreparedTraining | { untrained: Untrained };
