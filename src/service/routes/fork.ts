import { randomUUID } from 'node:crypto';
import { forkModelRequestSchema, formatModelName } from '../../contract/index.ts';
import { type Access, accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { isBlank, readJson } from '../json/read-text.ts';
import { operations } from '../openapi/operations.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import { validateBody } from '../validation.ts';
import { checkpointDeleted, findCheckpoint } from './checkpoints.ts';
import { defaultName, entityFor, existingModel, findModel, modelExists, toModel } from './models.ts';
import { answerOnce, type Register } from './route.ts';

export function forkRoutes(on: Register, service: ServiceContext): void {
  on(operations.forkModel, (context) =>
    answerOnce(service, context, async (content, id) => {
      // An earlier try with this Idempotency-Key created it; the source model may be deleted by now.
      const model =
        (await service.store.model(id)) ??
        (await fork(service, accessOf(context), {
          sourceId: context.req.param('model_id'),
          body: isBlank(content) ? {} : await readJson(content),
          id,
        }));
      return { body: toModel(service, model), modelId: model.id };
    }),
  );
}

/**
 * Creates a model whose step 0 has the weights of another model's checkpoint. They are copied, so that the
 * source can be deleted.
 */
async function fork(
  service: ServiceContext,
  access: Access,
  { sourceId, body, id }: { sourceId: string; body: unknown; id: string },
): Promise<ModelRecord> {
  const { store, files } = service;
  const request = validateBody(forkModelRequestSchema, body);
  const source = await findModel(service, access, sourceId);
  const checkpoint = await findCheckpoint(service, source, request.step);
  const createdAt = new Date().toISOString();
  const model: ModelRecord = {
    id,
    entity: entityFor(access, request.entity, source.entity),
    project: request.project ?? source.project,
    name: request.name ?? defaultName(id),
    baseModel: source.baseModel,
    createdAt,
    lastStep: 0,
    forkedFrom: { modelId: source.id, step: checkpoint.step },
  };
  const taken = async () => {
    const existing = await existingModel(service, model, request);
    const origin = existing.forkedFrom;
    if (origin?.modelId === source.id && (request.step === undefined || origin.step === request.step))
      return existing;
    const { entity, project, name } = source;
    const requested = formatModelName({ entity, project, name, step: checkpoint.step });
    throw modelExists(existing, `but is not a fork of ${requested}`);
  };
  // Checked before copying the weights in vain; the insertion checks again.
  if (await store.modelNamed(model.entity, model.project, model.name)) return taken();
  const folder = await copyWeights(service, checkpoint, id);
  const { metrics } = checkpoint;
  const first = { id: randomUUID(), modelId: id, step: 0, folder, metrics, createdAt };
  await files.keepModel(model);
  const isStored = await store.insertModel(model, first).catch(async (error: unknown) => {
    // If this lookup or removal fails too, the next start removes the files.
    if (!(await store.model(id).catch(() => model))) await files.removeModel(id).catch(() => {});
    throw error;
  });
  if (isStored) {
    service.models.forget();
    return model;
  }
  await files.removeModel(id);
  return taken();
}

/** Copies a checkpoint's weights. The record is stored later; without it, the next start removes the copy. */
async function copyWeights(
  { store, files }: ServiceContext,
  { modelId, step, id, folder }: CheckpointRecord,
  forkId: string,
): Promise<string | null> {
  if (folder === null) return null;
  const copy = files.checkpointFolder(forkId, 0);
  // A record is deleted before its files, so if it still exists, the copy is complete.
  const isThere = async () => (await store.checkpoint(modelId, step))?.id === id;
  try {
    await files.copyCheckpoint(folder, copy);
    if (await isThere()) return copy;
    throw checkpointDeleted(step);
  } catch (error) {
    await files.removeModel(forkId);
    throw (await isThere()) ? error : checkpointDeleted(step);
  }
}
