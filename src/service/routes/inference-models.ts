import type { Hono } from 'hono';
import { formatModelName, type InferenceModel } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { Slices } from '../slices.ts';

/** Lists what chat completions can be asked of: the base models, then the trained ones, each by its own name. */
export function inferenceModelRoutes(app: Hono, { engine, store }: ServiceContext): void {
  const startedAt = Math.floor(Date.now() / 1000);

  app.get('/v1/models', async (context) => {
    const slices = new Slices();
    const data = engine.baseModels.map(({ id }) =>
      JSON.stringify({
        id,
        object: 'model',
        created: startedAt,
        owned_by: engine.name,
        root: id,
      } satisfies InferenceModel),
    );
    for await (const models of store.everyModel(accessOf(context).entity)) {
      for (const { entity, project, name, baseModel, createdAt } of models)
        data.push(
          JSON.stringify({
            id: formatModelName({ entity, project, name }),
            object: 'model',
            created: Math.floor(Date.parse(createdAt) / 1000),
            owned_by: entity,
            root: baseModel,
          } satisfies InferenceModel),
        );
      await slices.pause();
    }
    return context.body(`{"object":"list","data":[${data.join(',')}]}`, 200, {
      'content-type': 'application/json',
    });
  });
}
