import { formatModelName, type InferenceModel } from '../../contract/index.ts';
import type { BaseModel } from '../../engines/engine.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { operations } from '../openapi/operations.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import type { Register } from './route.ts';

/** The models for chat completions: base models, then trained ones, each by its full name. */
export function inferenceModelRoutes(on: Register, { engine, store, models }: ServiceContext): void {
  const startedAt = Math.floor(Date.now() / 1000);

  const ofBase = ({ id, engine: own = engine.name }: BaseModel): InferenceModel => ({
    id,
    object: 'model',
    created: startedAt,
    owned_by: own,
    root: id,
  });

  on(operations.listInferenceModels, async (context) => {
    const slices = new TimeSlices();
    const data = engine.baseModels.map((base) => JSON.stringify(ofBase(base)));
    for await (const trained of store.everyModel(accessOf(context).entity)) {
      for (const model of trained) data.push(JSON.stringify(ofModel(model)));
      await slices.pause();
    }
    return context.body(`{"object":"list","data":[${data.join(',')}]}`, 200, {
      'content-type': 'application/json',
    });
  });

  on(operations.getInferenceModel, async (context) => {
    const name = context.req.param('model');
    const base = engine.baseModels.find(({ id }) => id === name);
    if (base) return context.json(ofBase(base));
    const { model, checkpoint, step } = await models.find(name, accessOf(context));
    return context.json(step === undefined ? ofModel(model) : ofCheckpoint(model, checkpoint));
  });
}

const ofModel = ({ entity, project, name, baseModel, createdAt }: ModelRecord): InferenceModel => ({
  id: formatModelName({ entity, project, name }),
  object: 'model',
  created: seconds(createdAt),
  owned_by: entity,
  root: baseModel,
});

const ofCheckpoint = (model: ModelRecord, { step, createdAt }: CheckpointRecord): InferenceModel => ({
  ...ofModel(model),
  id: formatModelName({ ...model, step }),
  created: seconds(createdAt),
});

const seconds = (timestamp: string) => Math.floor(Date.parse(timestamp) / 1000);
