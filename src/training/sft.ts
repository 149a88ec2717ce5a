import { type ModelHandle, newestStep } from '../model/index.ts';
import type { ProgressOption, RunListener } from '../progress/index.ts';
import { asThrownBy } from '../util/error.ts';
import { type OptionNames, objectOf, requireOptions } from '../util/option-names.ts';
import { runOptionError } from './errors.ts';
import { meanMetrics } from './follow-job.ts';
import { checkLostJob, type LostJobOptions, lostJobNames } from './lost-job.ts';
import { openView } from './run-events.ts';
import { runJob } from './run-job.ts';
import { checkSftSettings, createSftJob, sftSettingNames, uploadExamples } from './sft-job.ts';
import type { SftExamples, SftSettings } from './train-options.ts';

export interface SftOptions extends SftSettings {
  /** The model to train, from `openModel`. Training starts from its newest checkpoint. */
  model: ModelHandle;
  /** Conversations, each ending in an assistant message. */
  examples: SftExamples;
  /** Name of the `phase` events, whose `done` counts gradient steps. Default "supervised". */
  phase?: string;
  /** Deadline of the job, including its time in the queue, in milliseconds. Default 3,600,000 (1 hour). */
  timeoutMs?: number;
  /**
   * Identifies this training, in at most 250 characters. Another call with the same key and examples, for example after
   * the program was killed, does not train again: it returns the outcome of the first job, or throws if that job failed
   * or was cancelled. Use another key to train again. On a service without idempotency keys every call trains. Default:
   * every call trains.
   */
  idempotencyKey?: string;
  /**
   * What to do if the answer to the job's request is lost on a service without idempotency keys, or the service has
   * forgotten the job. Default: wait 10 minutes for its checkpoint, then throw `training_job_unknown`.
   */
  lostJob?: LostJobOptions;
  onEvent?: RunListener;
  /** How progress is shown; same values and default as `progress` of `train`. */
  progress?: ProgressOption;
  /** Cancels the job. */
  signal?: AbortSignal;
}

const sftNames = {
  model: 'handle',
  examples: true,
  ...sftSettingNames,
  phase: 'text',
  timeoutMs: 'number',
  idempotencyKey: 'text',
  lostJob: objectOf(lostJobNames),
  onEvent: 'function',
  progress: true,
  signal: 'signal',
} satisfies OptionNames<SftOptions>;

export interface SftResult {
  /** Pinned to the new checkpoint. */
  model: ModelHandle;
  /** Number of conversations. */
  examples: number;
  gradientSteps: number;
  /** Mean of each metric over the gradient steps. */
  metrics: Record<string, number>;
}

/**
 * Trains a model on conversations: uploads them, runs a supervised training job, and waits for its checkpoint.
 * @throws OptionError before the upload, TrainingError, the signal's reason, errors of the client.
 */
export async function sft(options: SftOptions): Promise<SftResult> {
  try {
    return await runSft(options);
  } catch (error) {
    throw asThrownBy(sft, error);
  }
}

async function runSft(options: SftOptions): Promise<SftResult> {
  requireOptions('sft()', options, sftNames, ['model']);
  const { examples, phase = 'supervised', idempotencyKey, timeoutMs, lostJob, signal } = options;
  const { batchSize, learningRate, assistantTurns } = options;
  checkSftSettings(options);
  checkLostJob(lostJob);
  if ((idempotencyKey?.length ?? 0) > maxKeyLength)
    throw runOptionError(
      'idempotencyKey',
      `\`idempotencyKey\` has ${idempotencyKey?.length} characters; pass at most ${maxKeyLength}.`,
    );
  const { client } = options.model;
  using view = await openView(options.progress, `training ${options.model.name}`, options.onEvent);
  const { url, count } = await uploadExamples(client, examples, { option: 'examples', signal });
  const model = options.model.at(await newestStep(options.model, signal));
  const request = { trainingDataUrl: url, batchSize, learningRate, assistantTurns };
  const { gradientSteps, step } = await runJob({
    kind: 'sft',
    model,
    name: 'The supervised training job',
    advice,
    idempotencyKey,
    create: (key, graceSignal) => createSftJob(model, request, { idempotencyKey: key, signal: graceSignal }),
    onProgress: ({ status, gradientSteps: done, total, metrics }) => {
      if (status !== 'submitted') view.listener({ type: 'phase', phase, done, total, metrics });
    },
    timeoutMs,
    lostJob,
    signal,
  });
  return {
    model: model.at(step),
    examples: count,
    gradientSteps: gradientSteps.length,
    metrics: meanMetrics(gradientSteps),
  };
}

/** A header may have 255 characters. */
const maxKeyLength = 250;

const advice = (mayRequestAgain: boolean) =>
  'Check the model on the service: if a checkpoint is there now, it is trained; if there is no such job, call again. ' +
  `With ${mayRequestAgain ? "`lostJob: { decision: 'ask_again' }` or " : ''}` +
  "`lostJob: { decision: 'take_as_done' }` you can decide this in advance.";
