import type { Hono } from 'hono';
import { logRequestSchema } from '../../contract/index.ts';
import { isObject, parseJson, validateBody } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField } from '../errors.ts';
import type { LogRecord } from '../store/store.ts';
import { answerOnce } from './answers.ts';
import { findModel } from './models.ts';

const longestSplit = 64;

export function logRoutes(app: Hono, service: ServiceContext): void {
  const writing = new Map<string, Promise<unknown>>();

  app.post('/v1/preview/models/:model_id/log', (context) =>
    answerOnce(service, context, async (text, id) => {
      const model = await findModel(service, context.req.param('model_id'));
      const body = parseJson(text);
      const request = validateBody(logRequestSchema, body);
      if (request.model_id !== undefined && request.model_id !== model.id)
        throw invalidField(['model_id'], 'is not the model of the path', request.model_id);
      if (request.split.length > longestSplit)
        throw invalidField(['split'], `must have at most ${longestSplit} characters`, request.split);
      // As they came: what the schema does not know is kept too.
      const groups: unknown[] =
        isObject(body) && Array.isArray(body.trajectory_groups) ? body.trajectory_groups : [];
      const trajectories = request.trajectory_groups.reduce(
        (sum, group) => sum + group.trajectories.length,
        0,
      );
      const lines = groups.map((group) => `${JSON.stringify(group)}\n`).join('');
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
  await store.insertLog({ ...record, offset, bytes, createdAt: new Date().toISOString() });
}
