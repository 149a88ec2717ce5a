import { formatModelName, type InferenceModel, parseModelName } from '../../contract/index.ts';
import type { BaseModel } from '../../engines/engine.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { type Access, accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { unknownModel, unknownStep } from '../inference/resolve-model.ts';
import { operations } from '../openapi/operations.ts';
import type { CheckpointRecord, ModelRecord } from '../store/store.ts';
import type { Register } from './route.ts';

/** The models for chat completions: base models, then trained ones, each by its full name. */
export function inferenceModelRoutes(on: Register, { engine, store }: ServiceContext): void {
  const startedAt = Math.floor(Date.now() / 1000);

  const ofBase = ({ id }: BaseModel): InferenceModel => ({
    ...{ id, object: 'model', created: startedAt, owned_by: engine.name, root: id },
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

  const find = async (name: string, access: Access): Promise<InferenceModel> => {
    const base = engine.baseModels.find(({ id }) => id === name);
    if (base) return ofBase(base);
    const parsed = parseModelName(name);
    if (!parsed || !access.sees(parsed.entity)) throw unknownModel(name);
    const model = await store.modelNamed(parsed.entity, parsed.project, parsed.name);
    if (!model) throw unknownModel(name);
    if (parsed.step === undefined) return ofModel(model);
    const checkpoint = await store.checkpoint(model.id, parsed.step);
    if (!checkpoint) throw unknownStep(name, parsed.step);
    return ofCheckpoint(model, checkpoint);
  };

  // A model name contains slashes, which only some clients encode.
  on(operations.getInferenceModel, async (context) =>
    context.json(await find(context.req.param('model'), accessOf(context))),
  );
}

const ofModel = ({ entity, project, name, baseModel, createdAt }: ModelRecord): InferenceModel => ({
  id: formatModelName({ entity, project, name }),
  object: 'model',
  created: seconds(createdAt),
  owned_by: entity,
  root: baseModel,
});

const ofCheckpoint = (model: ModelRecord, { step, createdAt }: CheckpointRecord): InferenceModel => {
  const { entity, project, name } = model;
  return {
    ...ofModel(model),
    id: formatModelName({ entity, project, name, step }),
    created: seconds(createdAt),
  };
};

const seconds = (timestamp: string) => Math.floor(Date.parse(timestamp) / 1000);
