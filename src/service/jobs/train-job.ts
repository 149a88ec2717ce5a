import { randomUUID } from 'node:crypto';
import { SpanKind } from '@opentelemetry/api';
import type { Untrained } from '../../contract/index.ts';
import type { Engine, TrainedTokens, TrainingBatch, TrainRequest } from '../../engines/engine.ts';
import { attribute, linksTo, remoteContext, spanName, withSpan } from '../../telemetry/index.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, JobSuccess, ModelRecord, Store } from '../store/store.ts';
import type { ServiceLog } from '../telemetry.ts';
import type { JobEvents, NewEvent } from './job-events.ts';

export interface TrainJobDependencies {
  engine: Engine;
  store: Store;
  files: DataFiles;
  events: JobEvents;
  /** Turns a job's payload into batches. Rejects when the payload is invalid; the job fails with that message. */
  prepare: (job: JobRecord, model: ModelRecord, signal: AbortSignal) => Promise<PreparedJob>;
  log: ServiceLog;
  /** Called once the start of the job is stored. */
  onBegin: () => void;
}

/** Runs a job from its beginning. Writes the weights of the new checkpoint, but not its record. */
export async function trainJob(
  { engine, store, files, events, prepare, log, onBegin }: TrainJobDependencies,
  job: JobRecord,
  controller: AbortController,
): Promise<JobSuccess> {
  const { signal } = controller;
  const model = await store.model(job.modelId);
  const from = await store.newestCheckpoint(job.modelId);
  if (!model || !from) throw new ServiceError(404, 'model_not_found', 'The job has no model to train.');
  const prepared = await prepare(job, model, signal);
  signal.throwIfAborted();
  const begin = async (steps: number) => {
    // A job that runs again already has a `training_started` event.
    const hasStarted = (await store.countEvents(job.id, 'training_started')) > 0;
    const event = { type: 'training_started', data: { num_sequences: steps } } as const;
    await events.start(job.id, hasStarted ? null : event);
    onBegin();
  };
  if ('untrained' in prepared) {
    await begin(0);
    return { status: 'succeeded', checkpoint: from, untrained: prepared.untrained };
  }
  const step = model.lastStep + 1;
  const folder = files.checkpointFolder(model.id, step);
  await files.clearCheckpoint(folder);
  await begin(prepared.steps);
  /** Steps whose events an earlier run stored. */
  let stepsToSkip = await store.countEvents(job.id, 'gradient_step');
  let lastMetrics: Record<string, number> = {};
  let writing: Promise<void> = Promise.resolve();
  const write = (event: NewEvent) => {
    writing = writing.then(() => events.append(job.id, event));
    writing.catch((error) => controller.abort(error));
  };
  const counts: Record<string, number>[] = [];
  async function* countedBatches(batches: AsyncIterable<CountedBatch>) {
    for await (const next of batches) {
      counts.push({ ...next.counts, learning_rate: next.batch.learningRate });
      yield next.batch;
    }
  }
  const onStep: TrainRequest['onStep'] = (metrics, tokens) => {
    if (tokens) prepared.onTokens?.(tokens);
    const data = Object.entries({ ...metrics, ...counts.shift() });
    // JSON has no NaN: it would arrive as null.
    lastMetrics = Object.fromEntries(data.filter(([, value]) => Number.isFinite(value)));
    if (stepsToSkip-- > 0) return;
    write({ type: 'gradient_step', data: lastMetrics });
  };
  const onWait = (reason: string) => {
    log({ level: 'warn', event: 'job_waits', job: job.id, reason });
    write({ type: 'training_waiting', data: { reason } });
  };
  try {
    await engine.train({
      from: {
        baseModel: model.baseModel,
        folder: from.folder === null ? null : files.checkpointPath(from.folder),
      },
      folder: files.checkpointPath(folder),
      batches: countedBatches(prepared.batches),
      scratchFile: files.scratchFile(job.id),
      onStep,
      onWait,
      signal,
    });
    await writing;
    signal.throwIfAborted();
  } catch (error) {
    // The next run counts these events before it adds its own.
    await writing.catch(() => undefined);
    // On failure the next run or the next start clears the folder; the training's error matters more.
    await files.clearCheckpoint(folder).catch(() => undefined);
    throw error;
  }
  const createdAt = new Date().toISOString();
  const metrics = prepared.keepsMetrics === false ? {} : lastMetrics;
  const checkpoint = { id: randomUUID(), modelId: model.id, step, folder, metrics, createdAt };
  return { status: 'succeeded', checkpoint, untrained: null };
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
  /** Gets what a step found of its tokens, if the engine tells it. */
  onTokens?: (tokens: TrainedTokens) => void;
  /** Number of gradient steps. */
  steps: number;
  /** Made one at a time, when the engine needs them. */
  batches: AsyncIterable<CountedBatch>;
}

/** A job that is ready to run: its batches, or why there is nothing to train on. */
export type PreparedJob = PreparedTraining | { untrained: Untrained };

/**
 * Runs a training job in its own span. The job outlives its request and may run after a restart, so the
 * span links to the request's span instead of being its child.
 */
export function traceJob(job: JobRecord, run: () => Promise<JobSuccess>): Promise<JobSuccess> {
  const attributes = {
    [attribute.jobId]: job.id,
    [attribute.jobKind]: job.kind,
    [attribute.modelId]: job.modelId,
  };
  return withSpan(
    spanName.trainingJob,
    attributes,
    async (span) => {
      const success = await run();
      span.setAttribute(attribute.policyVersion, success.checkpoint.step);
      return success;
    },
    { kind: SpanKind.CONSUMER, parent: remoteContext(null), links: linksTo(job.traceparent) },
  );
}
