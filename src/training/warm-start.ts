import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import type { RunContext } from './run-context.ts';
import { runJob } from './run-job.ts';
import { goOnWithResume } from './run-step.ts';
import { createSftJob, uploadExamples } from './sft-job.ts';
import type { WarmStart } from './train-options.ts';

/** Name of the `phase` events. */
const phase = 'warm start';

/**
 * Trains on conversations before the first step. The request and its outcome are written to disk. A resumed run follows
 * a known job, repeats a request whose answer it does not have, and creates another job if the first failed or was
 * cancelled.
 * @param model Pinned to the checkpoint that the run starts from.
 * @returns The model, pinned to the new checkpoint.
 */
export async function runWarmStart<Schema extends z.ZodType, Outcome>(
  { settings, rollouts, directory, emit, signal }: RunContext<Schema, Outcome>,
  model: ModelHandle,
  { examples, batchSize, learningRate, assistantTurns }: WarmStart,
): Promise<ModelHandle> {
  const upload = async () => {
    const given = typeof examples === 'function' ? examples({ seed: rollouts.seed }) : examples;
    const { url } = await uploadExamples(model.client, given, { option: 'warmStart.examples', signal });
    return { trainingDataUrl: url, batchSize, learningRate, assistantTurns };
  };
  const before = await directory.readWarmStart();
  const request = before?.request ?? (await upload());
  const { step } = await runJob({
    kind: 'sft',
    model,
    name: 'The training job of the warm start',
    goOn: goOnWithResume,
    before,
    keep: (state) => directory.writeWarmStart({ request, ...state }),
    create: (idempotencyKey, patient) => createSftJob(model, request, { idempotencyKey, signal: patient }),
    onProgress: ({ status, gradientSteps: done, total, metrics }) => {
      if (status !== 'submitted') emit({ type: 'phase', phase, done, total, metrics });
    },
    timeoutMs: settings.jobTimeoutMs,
    lostJob: settings.lostJob,
    signal,
  });
  return model.at(step);
}
