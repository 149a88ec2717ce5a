import type { Client } from '../client/index.ts';
import { type ModelHandle, newestStep } from '../model/index.ts';
import type { ProgressOption, RunListener } from '../progress/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { runOptionError } from './errors.ts';
import { meanMetrics } from './follow-job.ts';
import { checkLostJob, findJob, knowsKeys, type LostJobOptions, lostJobNames } from './lost-job.ts';
import { openView, safeListener } from './run-events.ts';
import { runJob } from './run-job.ts';
import {
  checkSftSettings,
  createSftJob,
  type SftExamples,
  type SftSettings,
  uploadExamples,
} from './sft-job.ts';

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
   * the program was killed, does not train again and returns the first outcome. If that job failed or was cancelled,
   * the call creates another, at most nine times. On a service without idempotency keys every call trains. Default:
   * every call trains.
   */
  idempotencyKey?: string;
  /**
   * What to do if the answer to the job's request is lost on a service without idempotency keys, or the service has
   * forgotten the job. Default: wait 10 minutes for its checkpoint, then throw `training_job_unknown`.
   */
  lostJob?: LostJobOptions;
  onEvent?: RunListener;
  /** How progress is shown; same values as `progress` of `train`. Default: a live view on a terminal. */
  progress?: ProgressOption;
  /** Cancels the job. */
  signal?: AbortSignal;
}

const sftNames = {
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
  progress: true,
  signal: true,
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
  const { examples, phase = 'supervised', idempotencyKey, timeoutMs, lostJob, signal } = options;
  const { batchSize, learningRate, assistantTurns } = options;
  checkOptionNames('sft()', options, sftNames);
  checkSftSettings(options);
  checkLostJob(lostJob);
  if ((idempotencyKey?.length ?? 0) > longestKey)
    throw runOptionError(
      'idempotencyKey',
      `\`idempotencyKey\` has ${idempotencyKey?.length} characters; give one of at most ${longestKey}.`,
    );
  const { client } = options.model;
  const view = await openView(options.progress, `training ${options.model.name}`, options.onEvent);
  const emit = safeListener(view.listener);
  try {
    const { url, count } = await uploadExamples(client, examples, { option: 'examples', signal });
    const model = options.model.at(await newestStep(options.model, signal));
    const request = { trainingDataUrl: url, batchSize, learningRate, assistantTurns };
    const { gradientSteps, step } = await runJob({
      kind: 'sft',
      model,
      name: 'The supervised training job',
      goOn,
      idempotencyKey,
      create: (key, patient) => {
        const create = (of: string) => createSftJob(model, request, { idempotencyKey: of, signal: patient });
        const isLasting = idempotencyKey !== undefined && knowsKeys(client);
        return isLasting ? createPastFailed(client, key, create, patient) : create(key);
      },
      onProgress: ({ status, gradientSteps: done, total, metrics }) => {
        if (status !== 'submitted') emit({ type: 'phase', phase, done, total, metrics });
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
  } finally {
    view.close();
  }
}

/** Maximum number of jobs for one key: the first, and its replacements after failed or cancelled ones. */
const mostAttempts = 10;
/** A header may have 255 characters, and the attempt number is appended. */
const longestKey = 250;

const goOn = (mayAskAgain: boolean) =>
  'Look at the model on the service: where a checkpoint has come meanwhile, it is trained; where there is no such job, ' +
  `call again. With ${mayAskAgain ? "`lostJob: { decision: 'ask_again' }` or " : ''}` +
  "`lostJob: { decision: 'take_as_done' }` that is decided beforehand.";

/**
 * Creates the job of a key. If that job has failed or was cancelled, its key always returns it, so the job is created
 * with the next key (`key #2`, and so on). Returns the last job if all have failed.
 */
async function createPastFailed(
  client: Client,
  key: string,
  create: (key: string) => Promise<{ jobId: string }>,
  signal: AbortSignal,
): Promise<{ jobId: string }> {
  let created = await create(key);
  for (let attempt = 2; attempt <= mostAttempts; attempt++) {
    const job = await findJob(client, created.jobId, signal);
    if (job?.status !== 'failed' && job?.status !== 'cancelled') return created;
    created = await create(`${key} #${attempt}`);
  }
  return created;
}
