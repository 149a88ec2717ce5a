import type { StoredGroup } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ReceivedBody } from '../bodies/bodies.ts';
import type { ServiceContext } from '../context.ts';
import { invalidField, notFound, RequestValidationError } from '../errors.ts';
import { baseModelOf } from '../jobs/prepare-job.ts';
import { groupsField } from '../jobs/read-groups.ts';
import { operations } from '../openapi/operations.ts';
import type { GroupRecord, ModelRecord } from '../store/store.ts';
import { findModel } from './models.ts';
import { answerBodyOnce, type Register } from './route.ts';

export function groupRoutes(on: Register, service: ServiceContext): void {
  on(operations.createGroup, (context) =>
    answerBodyOnce(service, context, async (received) => {
      const access = accessOf(context);
      const model = await findModel(service, access, context.req.param('model_id'));
      // The same content for the same model is the same group, whatever its key.
      const id = `group-${received.fingerprint}`;
      const known = await service.store.useGroup(model.id, id);
      const group = known ?? (await storeGroup(service, received, { id, model, access }));
      return { body: toStoredGroup(group), modelId: model.id, isRepeatable: true };
    }),
  );
}

async function storeGroup(
  service: ServiceContext,
  received: ReceivedBody,
  { id, model, access }: { id: string; model: ModelRecord; access: ReturnType<typeof accessOf> },
): Promise<GroupRecord> {
  const { admission, constraints, engine, files, groupPacker, store, tools } = service;
  const base = baseModelOf(engine, model.baseModel);
  const known = constraints.knownTo(access.entity);
  await admission.group(store, access.tenant);
  const context = { engine, base, constraints: known, tools: tools(base.id) };
  const { content, ...packed } = await groupPacker.pack(received, context, { tenant: access.tenant });
  const group = { id, modelId: model.id, tenant: access.tenant, ...packed };
  const file = await files.createIncoming();
  try {
    await file.append(content);
    // Run alone: neither the cleaning nor a deletion of the model may come between the file and its record.
    await files.exclusively(model.id, async () => {
      if (!(await store.model(model.id))) throw notFound('model', model.id);
      try {
        await files.keepGroup(group, file);
        // If the model was deleted meanwhile, its files are removed after this.
        if (!(await store.insertGroup(group))) throw notFound('model', model.id);
      } catch (error) {
        // If this lookup or removal fails too, the next start takes the file away.
        const isKept = (await store.groupsOf(model.id, [id]).catch(() => null))?.size !== 0;
        if (!isKept) await files.removeGroup(group).catch(() => {});
        throw error;
      }
    });
    return group;
  } finally {
    await file.discard();
  }
}

const toStoredGroup = (group: GroupRecord): StoredGroup => ({
  id: group.id,
  num_trajectories: group.trajectories,
  num_sampled_tokens: group.sampledTokens,
  num_trainable_tokens: group.trainableTokens,
});

/** Refuses a job or a log without groups, and one with groups of both forms. */
export function requireGroups({
  [groupsField]: whole,
  groups,
}: {
  [groupsField]?: unknown;
  groups?: unknown;
}): void {
  if (whole === undefined && groups === undefined)
    throw new RequestValidationError([
      {
        loc: ['body', groupsField],
        msg: `Field required: send ${groupsField}, or groups with the ids of stored ones`,
        type: 'missing',
        input: null,
      },
    ]);
  if (whole !== undefined && groups !== undefined)
    throw invalidField(['groups'], `is another form of ${groupsField}; send only one of them`, groups);
}

/** The groups of a model with these ids, in their order. @throws ServiceError `group_not_found` */
export async function findGroups(
  { store }: Pick<ServiceContext, 'store'>,
  model: ModelRecord,
  ids: readonly string[],
): Promise<GroupRecord[]> {
  const found = await store.groupsOf(model.id, ids);
  return ids.map((id) => {
    const group = found.get(id);
    if (!group) throw notFound('group', id);
    return group;
  });
}
