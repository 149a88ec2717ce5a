import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import type { RunContext } from './run-context.ts';
import { runJob } from './run-job.ts';
import type { WarmStartRecord } from './run-state.ts';
import { goOnWithResume } from './run-step.ts';
import { createSftJob, uploadExamples } from './sft.ts';
import type { WarmStart } from './train-options.ts';
import { trainDefaults } from './train-options.ts';

export interface WarmStartOptions<Schema extends z.ZodType, Outcome> {
  context: RunContext<Schema, Outcome>;
  /** Pinned to the checkpoint that the run begins with. */
  model: ModelHandle;
  warmStart: WarmStart;
}

/** Name of its `phase` events. */
const phase = 'warm start';

/**
 * Trains on conversations before the first step. The request is on disk before the job is asked for, and what becomes
 * of it after: a run that is resumed follows the job that it knows, asks again under the same key for one whose answer
 * it does not know, and asks anew where that one has failed or was cancelled.
 * @returns The model pinned to the checkpoint that the job made.
 */
export async function runWarmStart<Schema extends z.ZodType, Outcome>({
  context,
  model,
  warmStart,
}: WarmStartOptions<Schema, Outcome>): Promise<ModelHandle> {
  const { settings, directory, emit, signal } = context;
  const before = await directory.readWarmStart();
  const request = before?.request ?? (await uploadRequest(warmStart, context, model));
  const attributes = { [attribute.jobKind]: 'sft', [attribute.modelId]: model.id };
  const { step } = await withSpan(spanName.job, attributes, (span) =>
    runJob<WarmStartRecord>({
      model,
      name: 'The training job of the warm start',
      goOn: goOnWithResume,
      before,
      begin: (idempotencyKey) => ({ idempotencyKey, from: model.step ?? 0, request }),
      keep: (record) => directory.writeWarmStart(record),
      create: ({ idempotencyKey }, patient) =>
        createSftJob(model, request, { idempotencyKey, signal: patient }),
      onKnown: (jobId) => span.setAttribute(attribute.jobId, jobId),
      onProgress: ({ gradientSteps: done, total, metrics }) =>
        emit({ type: 'phase', phase, done, total, metrics }),
      timeoutMs: settings.jobTimeoutMs,
      lostJob: settings.lostJob,
      signal,
    }),
  );
  return model.at(step);
}

async function uploadRequest<Schema extends z.ZodType, Outcome>(
  { examples, batchSize, learningRate, assistantTurns }: WarmStart,
  { settings: { seed = trainDefaults.seed }, signal }: RunContext<Schema, Outcome>,
  model: ModelHandle,
): Promise<WarmStartRecord['request']> {
  const given = typeof examples === 'function' ? examples({ seed }) : examples;
  const { url } = await uploadExamples(model.client, given, { option: 'warmStart.examples', signal });
  return { trainingDataUrl: url, batchSize, learningRate, assistantTurns };
}
