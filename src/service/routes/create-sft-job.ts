import type { z } from 'zod';
import { createSftTrainingJobRequestSchema } from '../../contract/index.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, unsupportedField } from '../errors.ts';
import { baseModelOf } from '../jobs/prepare-job.ts';
import type { ResolvedSftConfig } from '../jobs/sft-job.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import { findTrainingData } from '../training-data/find.ts';
import { validateBody } from '../validation.ts';
import { findModel } from './models.ts';
import { acceptJob, type JobOrigin, newJob, reserveJob } from './new-job.ts';

/** Creates a job of supervised training. */
export async function createSftJob(
  service: ServiceContext,
  body: unknown,
  origin: JobOrigin,
): Promise<JobRecord> {
  const request = validateBody(createSftTrainingJobRequestSchema, body);
  for (const [name, value] of Object.entries(request.experimental_config ?? {}))
    if (value !== null) throw unsupportedField(['experimental_config', name], value);
  const model = await findModel(service, origin.access, request.model_id);
  const slot = await reserveJob(service, model, origin);
  try {
    return await acceptSftJob(service, request, model, origin);
  } finally {
    slot.release();
  }
}

async function acceptSftJob(
  service: ServiceContext,
  request: z.infer<typeof createSftTrainingJobRequestSchema>,
  model: ModelRecord,
  origin: JobOrigin,
): Promise<JobRecord> {
  const { sftBatchSize, sftLearningRate } = baseModelOf(service.engine, model.baseModel).defaults;
  const requested = request.config?.batch_size ?? 'auto';
  const batchSize = requested === 'auto' ? sftBatchSize : requested;
  await checkTargetStep(service, model, request.config?.metric_logging?.target_training_step);
  const rates = request.config?.learning_rate ?? sftLearningRate;
  const { sha256, examples } = await findTrainingData(service, {
    address: request.training_data_url,
    access: origin.access,
    accept: (found) => checkRates(rates, found, batchSize),
  });
  const resolvedConfig: ResolvedSftConfig = {
    batch_size: batchSize,
    learning_rate: rates,
    assistant_turns: request.config?.assistant_turns ?? 'all',
    metric_logging: {
      enabled: request.config?.metric_logging?.enabled ?? true,
      target_training_step: request.config?.metric_logging?.target_training_step ?? null,
    },
    num_examples: examples,
    num_batches: Math.ceil(examples / batchSize),
  };
  return acceptJob(
    service,
    { ...newJob(origin, model), kind: 'sft', resolvedConfig, uploadSha256: sha256 },
    null,
  );
}

/** The job creates the step after the newest one and after those of waiting jobs. */
async function checkTargetStep(
  { store }: ServiceContext,
  { id }: ModelRecord,
  target: number | undefined,
): Promise<void> {
  if (target === undefined) return;
  // Counted before reading the newest step: a job that ends in between counts twice rather than not at
  // all.
  const waiting = (await store.unfinishedJobsOf(id)).length;
  const first = ((await store.model(id))?.lastStep ?? 0) + 1;
  const last = first + waiting;
  if (target >= first && target <= last) return;
  const possible =
    first === last ? `${first}` : first + 1 === last ? `${first} or ${last}` : `${first} to ${last}`;
  throw invalidField(
    ['config', 'metric_logging', 'target_training_step'],
    `metrics are stored with the job's checkpoint, which will be step ${possible}. Send that step, or omit the field`,
    target,
  );
}

function checkRates(rates: number | number[], examples: number, batchSize: number): void {
  const batches = Math.ceil(examples / batchSize);
  if (typeof rates === 'number' || rates.length === batches) return;
  throw invalidField(
    ['config', 'learning_rate'],
    `has ${rates.length} values for ${batches} batches (${examples} examples in batches of ${batchSize}). Send one number, or one for each batch`,
    rates,
  );
}
