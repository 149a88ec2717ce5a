import { z } from 'zod';
import { list, logRequestSchema, optional, trainingLimits } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import { type GroupedBody, groupsField, readGroupedBody } from '../bodies/grouped-body.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound } from '../errors.ts';
import { readGroups } from '../jobs/pack-groups.ts';
import { operations } from '../openapi/operations.ts';
import type { DataFiles } from '../store/files.ts';
import type { GroupRecord, LogRecord } from '../store/store.ts';
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
      const model = await findModel(service, accessOf(context), context.req.param('model_id'));
      const body = await readGroupedBody(received.source, fields);
      const request = validateBody(requestSchema, body.fields);
      if (request.model_id !== undefined && request.model_id.toLowerCase() !== model.id)
        throw invalidField(['model_id'], 'is not the model of the path', request.model_id);
      if (request.split.length > maxSplit)
        throw invalidField(['split'], `must have at most ${maxSplit} characters`, request.split);
      requireGroups(request);
      const record = { id, modelId: model.id, split: request.split };
      const logged = request.groups
        ? await logStored(service, record, await findGroups(service, model, request.groups))
        : await logWhole(service, record, body);
      return {
        body: { split: request.split, num_groups: logged.groups, num_trajectories: logged.trajectories },
        modelId: model.id,
      };
    }),
  );
}

type LogTarget = Pick<LogRecord, 'id' | 'modelId' | 'split'>;
type Logged = Pick<LogRecord, 'groups' | 'trajectories'>;

async function logWhole(service: ServiceContext, target: LogTarget, body: GroupedBody): Promise<Logged> {
  const { file, ...counts } = await compress(service.files, body);
  try {
    await write(service, { ...target, ...counts }, () => file.pieces({ start: 0, end: file.bytes }));
  } finally {
    await file.discard();
  }
  return counts;
}

/** The file of a stored group begins with what the log needs of it. */
async function logStored(
  service: ServiceContext,
  target: LogTarget,
  stored: readonly GroupRecord[],
): Promise<Logged> {
  const counts = {
    groups: stored.length,
    trajectories: stored.reduce((sum, { trajectories }) => sum + trajectories, 0),
  };
  const members = () => service.files.groupMembers(target.modelId, stored);
  await write(
    service,
    { ...target, ...counts },
    members,
    stored.map(({ id }) => id),
  );
  return counts;
}

/** Writes each group as a line of JSON and counts groups and trajectories. */
async function compress(files: DataFiles, body: GroupedBody) {
  let groups = 0;
  let trajectories = 0;
  const file = await files.compress(
    (async function* () {
      for await (const part of readGroups(body.groups())) {
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

/**
 * Appends gzip members to the log of a split, once for each record. Run alone: each record starts where the previous one
 * ends, and none may be added, or group removed, while the model is deleted.
 */
function write(
  { store, files }: ServiceContext,
  record: Omit<LogRecord, 'offset' | 'bytes' | 'createdAt'>,
  members: () => AsyncIterable<Uint8Array>,
  groupIds: readonly string[] = [],
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
