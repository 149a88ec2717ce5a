import { randomUUID } from 'node:crypto';
import {
  createModelRequestSchema,
  formatModelName,
  type Model,
  orderedPageQuerySchema,
} from '../../contract/index.ts';
import { type Access, accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, messageOf, notFound, ServiceError } from '../errors.ts';
import { readJson } from '../json/read-text.ts';
import { operations } from '../openapi/operations.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import { validate, validateBody } from '../validation.ts';
import { answerOnce, type Register, toPage } from './route.ts';

export function modelRoutes(on: Register, service: ServiceContext): void {
  const { store, engine } = service;

  on(operations.listBaseModels, (context) => context.json(engine.baseModels.map(({ id }) => id)));

  on(operations.createModel, (context) =>
    answerOnce(service, context, async (content, id) => {
      const model = await createModel(service, accessOf(context), await readJson(content), id);
      return { body: toModel(service, model), modelId: model.id };
    }),
  );

  on(operations.listModels, async (context) => {
    const query = validate(orderedPageQuerySchema, context.req.query(), 'query');
    return context.json(
      toPage(await store.models(query, accessOf(context).entity), (model) => toModel(service, model)),
    );
  });

  on(operations.getModel, async (context) =>
    context.json(
      toModel(service, await findModel(service, accessOf(context), context.req.param('model_id'))),
    ),
  );

  on(operations.deleteModel, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const checkpoints = await deleteWithJobs(service, model);
    service.models.forget();
    await removeModelRest(service, model, checkpoints);
    return context.json({ model_id: model.id, deleted_checkpoints: checkpoints.length, deleted_run: false });
  });
}

/** Finds a model the key can see; one of another entity is reported as missing. */
export async function findModel(
  { store }: Pick<ServiceContext, 'store'>,
  access: Access,
  id: string,
): Promise<ModelRecord> {
  // UUIDs are case-insensitive.
  const model = await store.model(id.toLowerCase());
  if (!model || !access.sees(model.entity)) throw notFound('model', id);
  return model;
}

/**
 * The entity of a new resource: the requested one, the key's, or `otherwise`. A key of one entity can only
 * create there.
 */
export function entityFor(access: Access, requested: string | undefined, otherwise: string): string {
  const entity = requested ?? access.entity ?? otherwise;
  if (access.sees(entity)) return entity;
  throw invalidField(
    ['entity'],
    `this key can only create models of the entity ${access.entity}; omit the field`,
    requested,
  );
}

/** Cancels the model's jobs and deletes it. Jobs requested meanwhile are cancelled too. */
async function deleteWithJobs({ store, queue }: ServiceContext, model: ModelRecord) {
  for (let tries = 0; tries < 10; tries++) {
    const checkpoints = await store.deleteModel(model.id);
    if (checkpoints) return checkpoints;
    for (const job of await store.unfinishedJobsOf(model.id)) await queue.cancel(job.id);
  }
  throw new ServiceError(
    409,
    'model_in_use',
    `Unfinished jobs of ${formatModelName(model)} remain. Stop its training, then delete it.`,
  );
}

async function createModel(
  service: ServiceContext,
  access: Access,
  body: unknown,
  id: string,
): Promise<ModelRecord> {
  const request = validateBody(createModelRequestSchema, body);
  const { engine, defaultEntity } = service;
  const base = engine.baseModels.find((model) => model.id === request.base_model);
  if (!base)
    throw invalidField(
      ['base_model'],
      `unknown base model; the base models are ${engine.baseModels.map((model) => model.id).join(', ')}`,
      request.base_model,
    );
  const createdAt = new Date().toISOString();
  const model: ModelRecord = {
    id,
    entity: entityFor(access, request.entity, defaultEntity),
    project: request.project,
    name: request.name ?? defaultName(id),
    baseModel: base.id,
    createdAt,
    lastStep: 0,
    forkedFrom: null,
  };
  const checkpoint = { id: randomUUID(), modelId: id, step: 0, folder: null, metrics: {}, createdAt };
  const { store, files } = service;
  if ((await store.modelNamed(model.entity, model.project, model.name)) === undefined) {
    await files.keepModel(model);
    if (await store.insertModel(model, checkpoint)) {
      service.models.forget();
      return model;
    }
    // An earlier try with the same Idempotency-Key may have made it.
    if ((await store.model(id)) === undefined) await files.removeModel(id);
  }
  const existing = await existingModel(service, model, request);
  if (existing.baseModel !== base.id)
    throw modelExists(existing, `but its base model is ${existing.baseModel}, not ${base.id}`);
  return existing;
}

export const defaultName = (id: string) => `model-${id.slice(0, 8)}`;

/**
 * The existing model of a name, if the request accepts it, else a 409. A model with the same id is
 * accepted too: an earlier try with this Idempotency-Key created it but was interrupted before its answer.
 */
export async function existingModel(
  { store }: ServiceContext,
  requested: Pick<ModelRecord, 'id' | 'entity' | 'project' | 'name'>,
  request: { return_existing: boolean },
): Promise<ModelRecord> {
  const existing = await store.modelNamed(requested.entity, requested.project, requested.name);
  if (existing && (request.return_existing || existing.id === requested.id)) return existing;
  throw new ServiceError(
    409,
    'model_exists',
    `The model ${formatModelName(requested)} exists already; send return_existing: true to get it.`,
  );
}

/** The 409 for an existing model that differs from the requested one. */
export const modelExists = ({ entity, project, name }: ModelRecord, reason: string) =>
  new ServiceError(
    409,
    'model_exists',
    `The model ${formatModelName({ entity, project, name })} exists already, ${reason}.`,
  );

/** A model as it is answered. */
export function toModel(
  { engine: { name: engineName, baseModels } }: Pick<ServiceContext, 'engine'>,
  { id, entity, project, name, baseModel, forkedFrom }: ModelRecord,
): Model {
  const base = baseModels.find((model) => model.id === baseModel);
  const engine = base ? (base.engine ?? engineName) : null;
  const forked_from = forkedFrom && { model_id: forkedFrom.modelId, step: forkedFrom.step };
  return { id, entity, project, name, base_model: baseModel, run_id: null, forked_from, engine };
}

/**
 * Removes weights whose records are deleted. The request has succeeded by then; files that cannot be
 * removed now are removed at the next start, like everything without a record.
 */
export async function removeWeights(
  service: ServiceContext,
  model: ModelRecord,
  checkpoints: readonly CheckpointRecord[],
): Promise<void> {
  const { engine, files } = service;
  for (const { folder } of checkpoints) {
    if (folder === null) continue;
    await tryRemove(service, folder, async () => {
      await engine.drop({ baseModel: model.baseModel, folder: files.checkpointPath(folder) });
      await files.removeCheckpoint(folder);
    });
  }
}

/** Removes everything a deleted model leaves, records and files. */
async function removeModelRest(
  service: ServiceContext,
  model: ModelRecord,
  checkpoints: readonly CheckpointRecord[],
): Promise<void> {
  await removeWeights(service, model, checkpoints);
  const { files, store } = service;
  await tryRemove(service, model.id, () => files.exclusively(model.id, () => files.removeModel(model.id)));
  await tryRemove(service, model.id, () => store.clearDeletedModels());
}

async function tryRemove(
  { log }: ServiceContext,
  folder: string,
  remove: () => Promise<void>,
): Promise<void> {
  try {
    await remove();
  } catch (error) {
    log({ level: 'warn', event: 'removal_failed', folder, error: messageOf(error) });
  }
}
