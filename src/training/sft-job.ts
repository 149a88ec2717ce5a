import type { z } from 'zod';
import type { Client } from '../client/index.ts';
import { foreignFieldOf, requestLimits, sftExampleSchema } from '../contract/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import { untilAborted } from '../util/deadline.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import type { OptionNames } from '../util/option-names.ts';
import { problemOf, showValue } from '../util/show-value.ts';
import { invalidRunOption, runOptionError } from './errors.ts';
import type { RunContext } from './run-context.ts';
import { runFiles } from './run-directory.ts';
import { resumeAdvice, runJob } from './run-job.ts';
import type { SftRequest } from './run-state.ts';
import type { SftExamples, SftSettings, WarmStart } from './train-options.ts';

export const sftSettingNames = {
  batchSize: true,
  learningRate: true,
  assistantTurns: true,
} satisfies OptionNames<SftSettings>;

/**
 * Checks settings early: the service would reject them too, but only after the upload.
 * @param within Prefix of the option names in errors, such as `warmStart.`.
 * @throws OptionError
 */
export function checkSftSettings(
  { batchSize, learningRate, assistantTurns = 'all' }: SftSettings,
  within = '',
): void {
  if (batchSize !== undefined && batchSize !== 'auto')
    wholeNumberOption('invalid_run_option', `${within}batchSize`, batchSize, 1);
  for (const rate of [learningRate ?? 1].flat())
    if (typeof rate !== 'number' || !(rate > 0 && rate <= requestLimits.number))
      throw runOptionError(
        `${within}learningRate`,
        `\`${within}learningRate\` has ${showValue(rate)}; pass numbers above 0 and up to ${requestLimits.number}.`,
      );
  if (Array.isArray(learningRate) && learningRate.length === 0)
    throw runOptionError(
      `${within}learningRate`,
      `\`${within}learningRate\` is empty; pass one number, or one for each batch.`,
    );
  if (assistantTurns !== 'all' && assistantTurns !== 'last')
    throw invalidRunOption(`${within}assistantTurns`, assistantTurns, 'Pass "all" or "last".');
}

/**
 * Uploads conversations as training data.
 * @param option Name of the option with the conversations, for errors.
 * @throws OptionError if there are none or one is invalid, the signal's reason, errors of the client.
 */
export async function uploadExamples(
  client: Client,
  examples: SftExamples | PromiseLike<SftExamples>,
  { option, signal }: { option: string; signal: AbortSignal | undefined },
): Promise<{ url: string; count: number }> {
  if (typeof examples !== 'object' || examples === null)
    throw invalidRunOption(option, examples, 'Pass a list of conversations, or an iterable of them.');
  const lines = await untilAborted(toLines(examples, { option, signal }), signal);
  if (lines.length === 0)
    throw runOptionError(option, `\`${option}\` is empty: there is nothing to train on.`);
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
    const at = `${option}[${lines.length}]`;
    const { error } = sftExampleSchema.safeParse(example);
    const foreign = error && foreignFieldOf(example);
    if (foreign) throw runOptionError(at, `\`${at}\`: ${foreign.path.join('.')} ${foreign.remedy}.`);
    const problem = error && problemOf(at, example, error);
    if (problem) throw runOptionError(at, problem);
    lines.push(JSON.stringify(example));
  }
  return lines;
}

/** Creates a supervised training job. */
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

/**
 * Trains the policy on conversations before the first step. The request and its outcome are written to disk. A resumed
 * run follows a known job, repeats a request whose answer it does not have, and creates another job if the first failed
 * or was cancelled.
 */
export async function runWarmStart<Schema extends z.ZodType, Outcome>(
  { settings, rollouts, directory, learners: [policy], emit, signal }: RunContext<Schema, Outcome>,
  { examples, batchSize, learningRate, assistantTurns }: WarmStart,
): Promise<void> {
  const { model } = policy;
  const upload = async () => {
    const conversations = typeof examples === 'function' ? examples({ seed: rollouts.seed }) : examples;
    const { url } = await uploadExamples(model.client, conversations, {
      option: 'warmStart.examples',
      signal,
    });
    return { trainingDataUrl: url, batchSize, learningRate, assistantTurns };
  };
  const before = await directory.read(runFiles.warmStart);
  const request = before?.request ?? (await upload());
  const { step } = await runJob({
    kind: 'sft',
    model,
    name: 'The training job of the warm start',
    advice: resumeAdvice,
    before,
    save: (state) => directory.write(runFiles.warmStart, { request, ...state }),
    create: (idempotencyKey, graceSignal) =>
      createSftJob(model, request, { idempotencyKey, signal: graceSignal }),
    onProgress: ({ status, gradientSteps: done, total, metrics }) => {
      if (status !== 'submitted') emit({ type: 'phase', phase: 'warm start', done, total, metrics });
    },
    timeoutMs: settings.jobTimeoutMs,
    lostJob: settings.lostJob,
    signal,
  });
  policy.startFrom(step);
}
