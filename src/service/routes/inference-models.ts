import type { Hono } from 'hono';
import { formatModelName, type InferenceModel } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';

/** Lists what chat completions can be asked of: the base models, then the trained ones, each by its own name. */
export function inferenceModelRoutes(app: Hono, { engine, store }: ServiceContext): void {
  const startedAt = Math.floor(Date.now() / 1000);

  app.get('/v1/models', async (context) => {
    const data = engine.baseModels.map(
      ({ id }): InferenceModel => ({
        id,
        object: 'model',
        created: startedAt,
        owned_by: engine.name,
        root: id,
      }),
    );
    const { entity: own } = accessOf(context);
    let after: string | undefined;
    for (;;) {
      const { items, hasMore } = await store.models({ after, limit: 100, order: 'asc' }, own);
      for (const { entity, project, name, baseModel, createdAt } of items)
        data.push({
          id: formatModelName({ entity, project, name }),
          object: 'model',
          created: Math.floor(Date.parse(createdAt) / 1000),
          owned_by: entity,
          root: baseModel,
        });
      after = items.at(-1)?.id;
      if (!hasMore) return context.json({ object: 'list', data });
    }
  });
}
