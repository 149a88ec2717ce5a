import type { Client } from '../client/index.ts';
import { type SftExample, sftExampleSchema } from '../contract/index.ts';
import { type ModelHandle, requireModelId, untilAborted } from '../model/index.ts';
import { complaintOf } from '../util/complaint.ts';
import { RunOptionError } from './errors.ts';

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
