import type { Client } from '../client/index.ts';
import { type SftExample, sftExampleSchema } from '../contract/index.ts';
import { type ModelHandle, newestStep, requireModelId, untilAborted } from '../model/index.ts';
import type { RunListener } from '../progress/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { complaintOf } from '../util/complaint.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { checkLostJob } from './check-options.ts';
import { RunOptionError } from './errors.ts';
import { meanMetrics } from './follow-job.ts';
import { findJob, knowsKeys, type LostJobOptions, lostJobNames } from './lost-job.ts';
import { safeListener } from './run-events.ts';
import { type JobState, runJob } from './run-job.ts';

export interface SftOptions {
  /** What is trained, from `openModel`. Training goes on from its newest checkpoint. */
  model: ModelHandle;
  /** Conversations, each ending in an assistant message. */
  examples: SftExamples;
  /** Which assistant messages of a conversation train: all, or the last after the others as context. Default "all". */
  assistantTurns?: 'all' | 'last';
  /** Conversations a gradient step takes. Default "auto": the service's choice. */
  batchSize?: number | 'auto';
  /** One value, or one for each batch. Default: the base model's own. */
  learningRate?: number | number[];
  /** Name of the `phase` events, whose `done` counts gradient steps. Default "supervised". */
  phase?: string;
  /** Deadline of the job, queue and all, in milliseconds. Default 3,600,000 (1 hour). */
  timeoutMs?: number;
  /**
   * Names this training, in at most 250 characters: another call with the same key and examples, such as that of a
   * program that was killed, trains nothing anew and gives what came of the first. Where that job failed or was
   * cancelled, the call asks for another, nine times at most. On a service that knows no keys every call trains.
   * Default: every call trains.
   */
  idempotencyKey?: string;
  /**
   * What becomes of the job where its answer was lost, on a service that knows no idempotency keys, or where the
   * service has forgotten it. Default: its checkpoint is waited for, for 10 minutes, and then
   * TrainingJobUnknownError.
   */
  lostJob?: LostJobOptions;
  onEvent?: RunListener;
  /** Cancels the job. */
  signal?: AbortSignal;
}

const superviseNames = {
  model: true,
  examples: true,
  batchSize: true,
  learningRate: true,
  assistantTurns: true,
  phase: true,
  timeoutMs: true,
  idempotencyKey: true,
  lostJob: lostJobNames,
  onEvent: true,
  signal: true,
} satisfies OptionNames<SftOptions>;

export interface SftResult {
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
 * @throws RunOptionError where there are none, TrainingJobError, TrainingJobTimeoutError, TrainingJobUnknownError, the
 * signal's reason, and what the client throws.
 */
export async function sft(options: SftOptions): Promise<SftResult> {
  const {
    model,
    batchSize,
    learningRate,
    assistantTurns,
    phase = 'supervised',
    timeoutMs,
    lostJob,
    signal,
  } = options;
  checkOptionNames('sft()', options, superviseNames);
  checkLostJob(lostJob);
  if ((options.idempotencyKey?.length ?? 0) > longestKey)
    throw new RunOptionError(
      `\`idempotencyKey\` has ${options.idempotencyKey?.length} characters; give one of at most ${longestKey}.`,
    );
  const onEvent = safeListener(options.onEvent);
  const { client } = model;
  const { url, count } = await uploadExamples(client, options.examples, { option: 'examples', signal });
  const attributes = { [attribute.jobKind]: 'sft', [attribute.modelId]: model.id };
  const from = await newestStep(model, signal);
  const request = { trainingDataUrl: url, batchSize, learningRate, assistantTurns };
  const { gradientSteps, step } = await withSpan(spanName.job, attributes, (span) =>
    runJob<JobState>({
      model,
      name: 'The supervised training job',
      goOn,
      before: undefined,
      begin: (made) => ({ idempotencyKey: options.idempotencyKey ?? made, from }),
      // A process that ends loses nothing but the waiting: whoever asks again decides it.
      keep: async () => undefined,
      create: async ({ idempotencyKey }, patient) => {
        const ask = (key: string) => createSftJob(model, request, { idempotencyKey: key, signal: patient });
        const isLasting = options.idempotencyKey !== undefined && knowsKeys(client);
        return isLasting ? askPastFailed(client, idempotencyKey, ask, patient) : ask(idempotencyKey);
      },
      onKnown: (jobId) => span.setAttribute(attribute.jobId, jobId),
      onProgress: ({ gradientSteps: done, total, metrics }) =>
        onEvent({ type: 'phase', phase, done, total, metrics }),
      timeoutMs,
      lostJob,
      signal,
    }),
  );
  return {
    model: model.at(step),
    examples: count,
    gradientSteps: gradientSteps.length,
    metrics: meanMetrics(gradientSteps),
  };
}

/** Jobs of one key: the first, and those after it that failed or was cancelled. */
const mostAttempts = 10;
/** A header may have 255 characters, and the number of an attempt comes behind. */
const longestKey = 250;

const goOn = (mayAskAgain: boolean) =>
  'Look at the model on the service: where a checkpoint has come meanwhile, it is trained; where there is no such job, ' +
  `call again. With ${mayAskAgain ? "`lostJob: { decision: 'ask_again' }` or " : ''}` +
  "`lostJob: { decision: 'take_as_done' }` that is decided beforehand.";

/**
 * Asks for the job of a key. One that has failed or was cancelled is over for good, and the key gives it for ever: then
 * for that of the key after it. Gives the last one where all have failed.
 */
async function askPastFailed(
  client: Client,
  key: string,
  ask: (key: string) => Promise<{ jobId: string }>,
  signal: AbortSignal,
): Promise<{ jobId: string }> {
  let asked = await ask(key);
  for (let attempt = 2; attempt <= mostAttempts; attempt++) {
    const job = await findJob(client, asked.jobId, signal);
    if (job?.status !== 'failed' && job?.status !== 'cancelled') return asked;
    asked = await ask(`${key} #${attempt}`);
  }
  return asked;
}

/** Conversations, each ending in an assistant message. */
export type SftExamples = Iterable<SftExample> | AsyncIterable<SftExample>;

/** What a supervised training job is asked for. */
export interface SftRequest {
  trainingDataUrl: string;
  batchSize?: number | 'auto' | undefined;
  learningRate?: number | number[] | undefined;
  assistantTurns?: 'all' | 'last' | undefined;
}

/**
 * Uploads conversations as training data.
 * @param option Name of the option that gave them, for the error where there are none.
 * @throws RunOptionError where there are none and for one that cannot be trained on, the signal's reason, and what the client throws.
 */
export async function uploadExamples(
  client: Client,
  examples: SftExamples | PromiseLike<SftExamples>,
  { option, signal }: { option: string; signal: AbortSignal | undefined },
): Promise<{ url: string; count: number }> {
  const lines = await untilAborted(toLines(examples, { option, signal }), signal);
  if (lines.length === 0) throw new RunOptionError(`\`${option}\` is empty: there is nothing to train on.`);
  const { url } = await client.uploads.create(`${lines.join('\n')}\n`, { signal });
  return { url, count: lines.length };
}

async function toLines(
  examples: SftExamples | PromiseLike<SftExamples>,
  { option, signal }: { option: string; signal: AbortSignal | undefined },
): Promise<string[]> {
  const lines: string[] = [];
  for await (const example of await examples) {
    signal?.throwIfAborted();
    const { error } = sftExampleSchema.safeParse(example);
    const complaint = error && complaintOf(`${option}[${lines.length}]`, example, error);
    if (complaint) throw new RunOptionError(complaint);
    lines.push(JSON.stringify(example));
  }
  return lines;
}

/** Asks for a supervised training job. */
export async function createSftJob(
  model: ModelHandle,
  { trainingDataUrl, batchSize, learningRate, assistantTurns }: SftRequest,
  options: { idempotencyKey: string; signal: AbortSignal },
): Promise<{ jobId: string }> {
  const { id } = await model.client.sftTrainingJobs.create(
    {
      model_id: requireModelId(model),
      training_data_url: trainingDataUrl,
      config: { batch_size: batchSize, learning_rate: learningRate, assistant_turns: assistantTurns },
    },
    options,
  );
  return { jobId: id };
}
