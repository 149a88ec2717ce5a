import { randomUUID } from 'node:crypto';
import type { Engine } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, JobSuccess, ModelRecord, Store } from '../store/store.ts';
import type { JobEvents } from './job-events.ts';
import type { PreparedJob } from './prepared-job.ts';
import { StepRecorder } from './step-recorder.ts';

export interface TrainJobDependencies {
  engine: Engine;
  store: Store;
  files: DataFiles;
  events: JobEvents;
  /** Turns a job's payload into batches. What is wrong with it rejects, and fails the job with that message. */
  prepare: (job: JobRecord, model: ModelRecord, signal: AbortSignal) => Promise<PreparedJob>;
  /** Called once it is written that the job runs. */
  onBegin: () => void;
}

/** Runs a job from its beginning. The weights of a new checkpoint are written; its record is not. */
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
    // The next run counts the events before it tells its own.
    await recorder.written().catch(() => undefined);
    // What stays is cleared by the next run, or by the next start; why it ended matters more.
    await files.clearCheckpoint(folder).catch(() => undefined);
    throw error;
  }
  const createdAt = new Date().toISOString();
  const metrics = prepared.keepsMetrics === false ? {} : recorder.last;
  const made = { id: randomUUID(), modelId: model.id, step, folder, metrics, createdAt };
  return { status: 'succeeded', checkpoint: made, untrained: null };
}

/**
 * Sets the job running. A job that runs again has told of its beginning and of some steps: these are not told
 * twice, so that whoever follows the events sees each step once.
 */
async function begin(
  { store, events }: Pick<TrainJobDependencies, 'store' | 'events'>,
  job: JobRecord,
  steps: number,
): Promise<void> {
  const told = (await store.countEvents(job.id, 'training_started')) > 0;
  await events.start(job.id, told ? null : { type: 'training_started', data: { num_sequences: steps } });
}
