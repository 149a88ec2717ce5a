import { z } from 'zod';
import { list, logRequestSchema, optional, trainingLimits } from '../../contract/index.ts';
import { sumOf } from '../../util/sums.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound } from '../errors.ts';
import { packBody } from '../jobs/pack-body.ts';
import { groupsField } from '../jobs/read-groups.ts';
import { operations } from '../openapi/operations.ts';
import type { LogRecord } from '../store/store.ts';
import { validateBody } from '../validation.ts';
import { findGroups, requireGroups } from './groups.ts';
import { findModel } from './models.ts';
import { answerBodyOnce, type Register } from './route.ts';

const maxSplit = 64;

/**
 * The request without the elements of its groups, which are read one by one and stored with unknown
 * fields.
 */
const requestSchema = logRequestSchema.extend({
  [groupsField]: optional(list(z.unknown(), trainingLimits.groups)),
});
const fields = new Set(Object.keys(requestSchema.shape));

export function logRoutes(on: Register, service: ServiceContext): void {
  on(operations.log, (context) =>
    answerBodyOnce(service, context, async (received, id) => {
      const access = accessOf(context);
      const model = await findModel(service, access, context.req.param('model_id'));
      let request: z.output<typeof requestSchema> | undefined;
      const options = { form: 'log', known: fields, caller: { tenant: access.tenant } } as const;
      const packed = await packBody(received, options, async (sent) => {
        request = validateBody(requestSchema, sent);
        if (request.model_id !== undefined && request.model_id.toLowerCase() !== model.id)
          throw invalidField(['model_id'], 'is not the model of the path', request.model_id);
        if (request.split.length > maxSplit)
          throw invalidField(['split'], `must have at most ${maxSplit} characters`, request.split);
        requireGroups(request);
        return null;
      });
      if (!request) throw new Error('the fields of the log were not read');
      const { split, groups: ids = [] } = request;
      const stored = packed ? [] : await findGroups(service, model, ids);
      const groups = packed?.groups ?? stored.length;
      const trajectories = packed?.trajectories ?? sumOf(stored, (group) => group.trajectories);
      const record = { id, modelId: model.id, split, groups, trajectories };
      // The file of a stored group begins with what the log needs of it.
      const members = () => (packed ? [packed.content] : service.files.groupMembers(model.id, stored));
      await write(service, record, members, ids);
      return { body: { split, num_groups: groups, num_trajectories: trajectories }, modelId: model.id };
    }),
  );
}

/**
 * Appends gzip members to the log of a split, once for each record. Run alone: each record starts where the previous one
 * ends, and none may be added, or group removed, while the model is deleted.
 */
function write(
  { store, files }: ServiceContext,
  record: Omit<LogRecord, 'offset' | 'bytes' | 'createdAt'>,
  members: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  groupIds: readonly string[],
): Promise<void> {
  const { id, modelId, split } = record;
  return files.exclusively(modelId, async () => {
    if (!(await store.model(modelId))) throw notFound('model', modelId);
    if (await store.logRecord(id)) return;
    const offset = await store.logEnd(modelId, split);
    const bytes = await files.appendLog(modelId, split, offset, members());
    const createdAt = new Date().toISOString();
    if (await store.insertLog({ ...record, offset, bytes, createdAt }, groupIds)) return;
    // The model was deleted meanwhile; its files are removed after this.
    throw notFound('model', modelId);
  });
}
