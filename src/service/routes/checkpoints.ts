import {
  type Checkpoint,
  deleteCheckpointsRequestSchema,
  formatModelName,
  orderedPageQuerySchema,
} from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound, ServiceError } from '../errors.ts';
import { checkpointOf } from '../inference/resolve-model.ts';
import { operations } from '../openapi/operations.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import { validate, validateBody } from '../validation.ts';
import { findModel, removeWeights } from './models.ts';
import { type Register, readSmallJson, toPage } from './route.ts';

export function checkpointRoutes(on: Register, service: ServiceContext): void {
  const { store } = service;

  on(operations.listCheckpoints, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const query = validate(orderedPageQuerySchema, context.req.query(), 'query');
    return context.json(toPage(await store.checkpoints(model.id, query), toCheckpoint));
  });

  on(operations.deleteCheckpoints, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const body = await readSmallJson(service, context);
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
  const checkpoint = await checkpointOf(store, model.id, step);
  if (checkpoint) return checkpoint;
  // A model always has a checkpoint, so it was deleted just now.
  if (step === undefined) throw notFound('model', model.id);
  throw new ServiceError(
    404,
    'checkpoint_not_found',
    `The model ${formatModelName(model)} has no checkpoint of step ${step}. GET /v1/preview/models/${model.id}/checkpoints lists its checkpoints.`,
  );
}

export const checkpointDeleted = (step: number) =>
  new ServiceError(
    404,
    'checkpoint_not_found',
    `The checkpoint of step ${step} was deleted during the request.`,
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
        `The training job ${job.id} (${job.status}) starts from step ${newest.step}. Wait for it, or cancel it.`,
      );
  }
  const deleted = await store.deleteCheckpoints(model.id, steps);
  if (!deleted)
    throw new ServiceError(
      409,
      'last_checkpoint',
      'A model keeps at least one checkpoint; delete the model instead.',
    );
  service.models.forget();
  await removeWeights(service, model, deleted);
  const found = new Set(deleted.map(({ step }) => step));
  return { deleted_count: deleted.length, not_found_steps: steps.filter((step) => !found.has(step)) };
}

function toCheckpoint({ id, step, metrics }: CheckpointRecord): Checkpoint {
  return { id, step, metrics };
}
