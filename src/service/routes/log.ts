import type { Hono } from 'hono';
import { z } from 'zod';
import { logRequestSchema, trajectoryGroupSchema } from '../../contract/index.ts';
import { parseJson, validateBody } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound } from '../errors.ts';
import { inSlices } from '../slices.ts';
import type { LogRecord } from '../store/store.ts';
import { validateItems } from '../validation.ts';
import { answerOnce } from './answers.ts';
import { findModel } from './models.ts';

const longestSplit = 64;

/** The request with its groups as they came: they are validated in slices, and kept with what the schema drops. */
const requestSchema = logRequestSchema.extend({ trajectory_groups: z.array(z.unknown()) });

export function logRoutes(app: Hono, service: ServiceContext): void {
  const writing = new Map<string, Promise<unknown>>();

  app.post('/v1/preview/models/:model_id/log', (context) =>
    answerOnce(service, context, async (text, id) => {
      const model = await findModel(service, context.req.param('model_id'));
      const request = validateBody(requestSchema, parseJson(text));
      if (request.model_id !== undefined && request.model_id.toLowerCase() !== model.id)
        throw invalidField(['model_id'], 'is not the model of the path', request.model_id);
      if (request.split.length > longestSplit)
        throw invalidField(['split'], `must have at most ${longestSplit} characters`, request.split);
      const place = ['body', 'trajectory_groups'];
      const groups = await validateItems(trajectoryGroupSchema, request.trajectory_groups, place);
      const trajectories = groups.reduce((sum, group) => sum + group.trajectories.length, 0);
      let lines = '';
      for await (const [, group] of inSlices(request.trajectory_groups))
        lines += `${JSON.stringify(group)}\n`;
      const record = { id, modelId: model.id, split: request.split, groups: groups.length, trajectories };
      // One at a time: each record begins where the one before it ends.
      const before = writing.get(model.id) ?? Promise.resolve();
      const written = before.catch(() => {}).then(() => write(service, record, lines));
      writing.set(model.id, written);
      await written.finally(() => {
        if (writing.get(model.id) === written) writing.delete(model.id);
      });
      return {
        status: 200,
        body: { split: request.split, num_groups: groups.length, num_trajectories: trajectories },
        modelId: model.id,
      };
    }),
  );
}

async function write(
  { store, files }: ServiceContext,
  record: Omit<LogRecord, 'offset' | 'bytes' | 'createdAt'>,
  lines: string,
): Promise<void> {
  if (await store.logRecord(record.id)) return;
  const offset = await store.logEnd(record.modelId, record.split);
  const bytes = await files.appendLog(record.modelId, record.split, offset, lines);
  if (await store.insertLog({ ...record, offset, bytes, createdAt: new Date().toISOString() })) return;
  // The model was deleted meanwhile, and writing made its folder anew.
  await files.removeModel(record.modelId);
  throw notFound('model', record.modelId);
}
