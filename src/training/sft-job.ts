import type { Client } from '../client/index.ts';
import { requestLimits, type SftExample, sftExampleSchema } from '../contract/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import { complaintOf, showValue } from '../util/complaint.ts';
import { untilAborted } from '../util/deadline.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import { invalidRunOption, runOptionError } from './errors.ts';

/** Conversations, each ending in an assistant message. */
export type SftExamples = Iterable<SftExample> | AsyncIterable<SftExample>;

/** Settings of supervised training. */
export interface SftSettings {
  /** Conversations per gradient step. Default "auto": the service decides. */
  batchSize?: number | 'auto';
  /** One value, or one for each batch. Default: that of the base model. */
  learningRate?: number | number[];
  /** Which assistant messages are trained on: all, or only the last, with the others as context. Default "all". */
  assistantTurns?: 'all' | 'last';
}

/** The request of a supervised training job. */
export interface SftRequest extends SftSettings {
  trainingDataUrl: string;
}

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
    if (typeof rate !== 'number' || !(rate > 0 && rate <= requestLimits.figure))
      throw runOptionError(
        `${within}learningRate`,
        `\`${within}learningRate\` has ${showValue(rate)}; give numbers above 0 and up to ${requestLimits.figure}.`,
      );
  if (Array.isArray(learningRate) && learningRate.length === 0)
    throw runOptionError(
      `${within}learningRate`,
      `\`${within}learningRate\` is empty; give one number, or one for each batch.`,
    );
  if (assistantTurns !== 'all' && assistantTurns !== 'last')
    throw invalidRunOption(`${within}assistantTurns`, assistantTurns, 'Give "all" or "last".');
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
    const complaint = error && complaintOf(at, example, error);
    if (complaint) throw runOptionError(at, complaint);
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
