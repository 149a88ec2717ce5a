import { randomUUID } from 'node:crypto';
import type { SftExample } from '../contract/index.ts';
import { type ModelHandle, newestStep, requireModelId } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { RunOptionError } from './errors.ts';
import { followJob, meanMetrics } from './follow-job.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import { sturdyListener } from './listener.ts';
import type { RunListener } from './run-event.ts';

export interface SuperviseOptions {
  /** What is trained, from `openModel`. Training goes on from its newest checkpoint. */
  model: ModelHandle;
  /** Conversations, each ending in an assistant message; every assistant message trains. */
  examples: Iterable<SftExample> | AsyncIterable<SftExample>;
  /** Conversations a gradient step takes. Default "auto": the service's choice. */
  batchSize?: number | 'auto';
  /** One value, or one for each batch. Default: the base model's own. */
  learningRate?: number | number[];
  /** Name of the `phase` events, whose `done` counts gradient steps. Default "supervised". */
  phase?: string;
  /** Deadline of the job, queue and all, in milliseconds. Default 3,600,000 (1 hour). */
  timeoutMs?: number;
  onEvent?: RunListener;
  /** Cancels the job. */
  signal?: AbortSignal;
}

export interface SuperviseResult {
  /** Pinned to the checkpoint that the job made. */
  model: ModelHandle;
  /** How many conversations there were. */
  examples: number;
  gradientSteps: number;
  /** Means over the job's gradient steps, by name. */
  metrics: Record<string, number>;
}

/**
 * Trains a model on conversations: uploads them, has the service train on them, and waits for the checkpoint.
 * @throws RunOptionError where there are none, TrainingJobError, TrainingJobTimeoutError, the signal's reason, and
 * what the client throws.
 */
export async function supervise(options: SuperviseOptions): Promise<SuperviseResult> {
  const { model, batchSize, learningRate, phase = 'supervised', timeoutMs, signal } = options;
  const onEvent = sturdyListener(options.onEvent);
  const { client } = model;
  const { text, count } = await toLines(options.examples);
  const upload = await client.uploads.create(text, { signal });
  const attributes = { [attribute.jobKind]: 'sft', [attribute.modelId]: model.id };
  const { gradientSteps } = await withSpan(spanName.job, attributes, async (span) => {
    const request = {
      model_id: requireModelId(model),
      training_data_url: upload.url,
      config: { batch_size: batchSize, learning_rate: learningRate },
    };
    // Not interrupted at once: a job that is asked for and not known could not be cancelled.
    const { id: jobId } = await withGrace(signal, stopGraceMs, (patient) =>
      client.sftTrainingJobs.create(request, { idempotencyKey: randomUUID(), signal: patient }),
    );
    span.setAttribute(attribute.jobId, jobId);
    return followJob({
      client,
      jobId,
      onProgress: ({ gradientSteps: done, total, metrics }) =>
        onEvent({ type: 'phase', phase, done, total, metrics }),
      timeoutMs,
      signal,
    });
  });
  return {
    model: model.at(await newestStep(model, signal)),
    examples: count,
    gradientSteps: gradientSteps.length,
    metrics: meanMetrics(gradientSteps),
  };
}

async function toLines(examples: SuperviseOptions['examples']): Promise<{ text: string; count: number }> {
  const lines: string[] = [];
  for await (const example of examples) lines.push(JSON.stringify(example));
  if (lines.length === 0) throw new RunOptionError('`examples` is empty: there is nothing to train on.');
  return { text: `${lines.join('\n')}\n`, count: lines.length };
}
