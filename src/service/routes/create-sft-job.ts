import type { z } from 'zod';
import { createSftTrainingJobRequestSchema } from '../../contract/index.ts';
import { validateBody } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, unsupportedField } from '../errors.ts';
import { baseModelOf } from '../jobs/prepare-job.ts';
import type { ResolvedSftConfig } from '../jobs/sft-job.ts';
import type { JobRecord, ModelRecord } from '../store/store.ts';
import { findTrainingData } from '../training-data/find.ts';
import { findModel } from './models.ts';
import { acceptJob, type JobOrigin, newJob, takeRoom } from './new-job.ts';

/** Makes a job of supervised training. */
export async function createSftJob(
  service: ServiceContext,
  body: unknown,
  origin: JobOrigin,
): Promise<JobRecord> {
  const request = validateBody(createSftTrainingJobRequestSchema, body);
  for (const [name, value] of Object.entries(request.experimental_config ?? {}))
    if (value !== null) throw unsupportedField(['experimental_config', name], value);
  const model = await findModel(service, origin.access, request.model_id);
  const room = await takeRoom(service, model, origin);
  try {
    return await acceptSftJob(service, request, model, origin);
  } finally {
    room.release();
  }
}

async function acceptSftJob(
  service: ServiceContext,
  request: z.infer<typeof createSftTrainingJobRequestSchema>,
  model: ModelRecord,
  origin: JobOrigin,
): Promise<JobRecord> {
  const { sftBatchSize, sftLearningRate } = baseModelOf(service.engine, model.baseModel).defaults;
  const given = request.config?.batch_size ?? 'auto';
  const batchSize = given === 'auto' ? sftBatchSize : given;
  const rates = request.config?.learning_rate ?? sftLearningRate;
  const { sha256, examples } = await findTrainingData(service, {
    address: request.training_data_url,
    access: origin.access,
    accept: (found) => checkRates(rates, found, batchSize),
  });
  const resolvedConfig: ResolvedSftConfig = {
    batch_size: batchSize,
    learning_rate: rates,
    num_examples: examples,
    num_batches: Math.ceil(examples / batchSize),
  };
  return acceptJob(
    service,
    { ...newJob(origin, model), kind: 'sft', resolvedConfig, uploadSha256: sha256 },
    null,
  );
}

function checkRates(rates: number | number[], examples: number, batchSize: number): void {
  const batches = Math.ceil(examples / batchSize);
  if (typeof rates === 'number' || rates.length === batches) return;
  throw invalidField(
    ['config', 'learning_rate'],
    `has ${rates.length} values for ${batches} batches (${examples} examples in batches of ${batchSize}); give one number, or one for each batch`,
    rates,
  );
}
