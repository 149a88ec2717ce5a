import { z } from 'zod';
import {
  type Checkpoint,
  deleteCheckpointsRequestSchema,
  formatModelName,
  orderedPageQuerySchema,
  wholeNumberText,
} from '../../contract/index.ts';
import { untilAborted } from '../../util/deadline.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { notFound, ServiceError } from '../errors.ts';
import { exchangeOf } from '../http/exchange.ts';
import { checkpointOf } from '../inference/resolve-model.ts';
import { operations } from '../openapi/operations.ts';
import { streamedBody } from '../server-sent-events.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import { validate, validateBody } from '../validation.ts';
import { findModel, removeWeights } from './models.ts';
import { type Register, readSmallJson, toPage } from './route.ts';

const pathSchema = z.object({ step: wholeNumberText(z.int().min(0)) });

export function checkpointRoutes(on: Register, service: ServiceContext): void {
  const { store, engine, files, closing, log } = service;

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

  on(operations.downloadCheckpoint, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const { step } = validate(pathSchema, { step: context.req.param('step') }, 'path');
    const { folder } = await findCheckpoint(service, model, step);
    const weights = {
      baseModel: model.baseModel,
      folder: folder === null ? null : files.checkpointPath(folder),
    };
    const signal = AbortSignal.any([exchangeOf(context).signalWhileNeeded(), closing]);
    const { extension, bytes, chunks } = await untilAborted(
      engine.exportWeights(weights, { signal }),
      signal,
    );
    const untilClosed = async function* () {
      for await (const chunk of chunks) {
        signal.throwIfAborted();
        yield chunk;
      }
    };
    // Names match a pattern without characters that need quoting.
    const fileName = `${model.name}-step${step}${extension}`;
    return context.body(streamedBody(context, untilClosed, { log, event: 'download_failed' }), 200, {
      'content-type': 'application/octet-stream',
      'content-length': String(bytes),
      'content-disposition': `attachment; filename="${fileName}"`,
      'accept-ranges': 'none',
    });
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
