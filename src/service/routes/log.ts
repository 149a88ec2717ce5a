import { z } from 'zod';
import { list, logRequestSchema, trainingLimits } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import { type GroupedBody, groupsField, readGroupedBody } from '../bodies/grouped-body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound } from '../errors.ts';
import { readGroups } from '../jobs/pack-groups.ts';
import { operations } from '../openapi/operations.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { LogRecord } from '../store/store.ts';
import { validateBody } from '../validation.ts';
import { findModel } from './models.ts';
import { answerBodyOnce, type Register } from './route.ts';

const maxSplit = 64;

/**
 * The request without the elements of its groups, which are read one by one and stored with unknown
 * fields.
 */
const requestSchema = logRequestSchema.extend({ [groupsField]: list(z.unknown(), trainingLimits.groups) });
const fields = new Set(Object.keys(requestSchema.shape));

export function logRoutes(on: Register, service: ServiceContext): void {
  on(operations.log, (context) =>
    answerBodyOnce(service, context, async (received, id) => {
      const model = await findModel(service, accessOf(context), context.req.param('model_id'));
      const body = await readGroupedBody(received.source, fields);
      const request = validateBody(requestSchema, body.fields);
      if (request.model_id !== undefined && request.model_id.toLowerCase() !== model.id)
        throw invalidField(['model_id'], 'is not the model of the path', request.model_id);
      if (request.split.length > maxSplit)
        throw invalidField(['split'], `must have at most ${maxSplit} characters`, request.split);
      const { file, groups, trajectories } = await compress(service.files, body);
      const record = { id, modelId: model.id, split: request.split, groups, trajectories };
      try {
        // Run alone: each record starts where the previous one ends, and none may be added while the model
        // is deleted.
        await service.files.exclusively(model.id, () => write(service, record, file));
      } finally {
        await file.discard();
      }
      return {
        body: { split: request.split, num_groups: groups, num_trajectories: trajectories },
        modelId: model.id,
      };
    }),
  );
}

/** Writes each group as a line of JSON and counts groups and trajectories. */
async function compress(files: DataFiles, body: GroupedBody) {
  let groups = 0;
  let trajectories = 0;
  const file = await files.compress(
    (async function* () {
      for await (const part of readGroups(body)) {
        if (part.type === 'trajectory') {
          trajectories++;
          continue;
        }
        groups++;
        yield* part.line();
        yield newline;
      }
    })(),
  );
  return { file, groups, trajectories };
}

const newline = Buffer.from('\n');

async function write(
  { store, files }: ServiceContext,
  record: Omit<LogRecord, 'offset' | 'bytes' | 'createdAt'>,
  member: IncomingFile,
): Promise<void> {
  if (!(await store.model(record.modelId))) throw notFound('model', record.modelId);
  if (await store.logRecord(record.id)) return;
  const offset = await store.logEnd(record.modelId, record.split);
  const bytes = await files.appendLog(record.modelId, record.split, offset, member);
  if (await store.insertLog({ ...record, offset, bytes, createdAt: new Date().toISOString() })) return;
  // The model was deleted meanwhile; its files are removed after this.
  throw notFound('model', record.modelId);
}
