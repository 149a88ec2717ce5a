import {
  type Checkpoint,
  deleteCheckpointsRequestSchema,
  formatModelName,
  orderedPageQuerySchema,
} from '../../contract/index.ts';
import { accessOf, tenantOf } from '../access.ts';
import { readBytes } from '../bodies/body-pieces.ts';
import type { ServiceContext } from '../context.ts';
import { notFound, ServiceError } from '../errors.ts';
import { readJson } from '../json/parse.ts';
import { operations } from '../openapi/operations.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import { validate, validateBody } from '../validation.ts';
import { textBytes, toPage } from './answers.ts';
import { findModel } from './models.ts';
import { removeWeights } from './remove-files.ts';
import type { Register } from './route.ts';

export function checkpointRoutes(on: Register, service: ServiceContext): void {
  const { store, bodyLimits } = service;

  on(operations.listCheckpoints, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const query = validate(orderedPageQuerySchema, context.req.query(), 'query');
    return context.json(toPage(await store.checkpoints(model.id, query), toCheckpoint));
  });

  on(operations.deleteCheckpoints, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const held = service.admission.body(tenantOf(context));
    const body = await readBytes(context, Math.min(textBytes, bodyLimits.preview), held)
      .then((content) => readJson(content))
      .finally(held.release);
    const { steps } = validateBody(deleteCheckpointsRequestSchema, body);
    return context.json(await deleteCheckpoints(service, model, [...new Set(steps)]));
  });
}

/** The checkpoint of a step, or the newest without one. */
export async function findCheckpoint(
  { store }: ServiceContext,
  model: ModelRecord,
  step: number | undefined,
): Promise<CheckpointRecord> {
  const checkpoint =
    step === undefined ? await store.newestCheckpoint(model.id) : await store.checkpoint(model.id, step);
  if (checkpoint) return checkpoint;
  // A model always has a checkpoint, so it was deleted just now.
  if (step === undefined) throw notFound('model', model.id);
  throw new ServiceError(
    404,
    'checkpoint_not_found',
    `The model ${formatModelName(model)} has no checkpoint of step ${step}; GET /v1/preview/models/${model.id}/checkpoints lists those it has.`,
  );
}

export const checkpointGone = (step: number) =>
  new ServiceError(
    404,
    'checkpoint_not_found',
    `The checkpoint of step ${step} was deleted while the request was on its way.`,
  );

async function deleteCheckpoints(service: ServiceContext, model: ModelRecord, steps: number[]) {
  const { store } = service;
  const newest = await store.newestCheckpoint(model.id);
  if (newest && steps.includes(newest.step)) {
    const [job] = await store.unfinishedJobsOf(model.id);
    if (job)
      throw new ServiceError(
        409,
        'checkpoint_in_use',
        `Step ${newest.step} is what the training job ${job.id} (${job.status}) starts from; wait for the job, or cancel it.`,
      );
  }
  const going = await store.deleteCheckpoints(model.id, steps);
  if (!going)
    throw new ServiceError(
      409,
      'last_checkpoint',
      'A model keeps at least one checkpoint; delete the model instead.',
    );
  service.models.forget();
  await removeWeights(service, model, going);
  const found = new Set(going.map(({ step }) => step));
  return { deleted_count: going.length, not_found_steps: steps.filter((step) => !found.has(step)) };
}

function toCheckpoint({ id, step, metrics }: CheckpointRecord): Checkpoint {
  return { id, step, metrics };
}
