import { integer, type Row, type SqliteDatabase, size, text } from './sqlite-database.ts';
import { hasModel, unfinished } from './sqlite-rows.ts';
import type { GroupRecord, GroupStore } from './store.ts';

const unused = `used_at < iif(is_named, ?1, ?2) AND NOT EXISTS
  (SELECT 1 FROM jobs, json_each(jobs.group_ids) AS named WHERE ${unfinished} AND named.value = groups.id)`;

/** Stored groups: records of files that are named by a hash of what was sent. */
export function sqliteGroups(database: SqliteDatabase): GroupStore {
  return {
    async insertGroup(group) {
      return database.transaction(() => {
        if (!hasModel(database, group.modelId)) return false;
        const row = {
          id: group.id,
          model_id: group.modelId,
          tenant: group.tenant,
          member_bytes: group.memberBytes,
          bytes: group.bytes,
          trajectories: group.trajectories,
          sampled_tokens: group.sampledTokens,
          trainable_tokens: group.trainableTokens,
          used_at: Date.now(),
          is_named: 0,
        };
        database.insert('groups', row, 'ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at');
        return true;
      });
    },

    async useGroup(modelId, id) {
      const sql = 'UPDATE groups SET used_at = ? WHERE id = ? AND model_id = ? RETURNING *';
      return database.find(toGroup, sql, Date.now(), id, modelId);
    },

    async groupsOf(modelId, ids) {
      const sql = 'SELECT * FROM groups WHERE model_id = ? AND id IN (SELECT value FROM json_each(?))';
      const rows = database.all(sql, modelId, JSON.stringify(ids));
      return new Map(rows.map((row) => [text(row, 'id'), toGroup(row)]));
    },

    async groupIds(modelId) {
      return database.all('SELECT id FROM groups WHERE model_id = ?', modelId).map((row) => text(row, 'id'));
    },

    async countGroups(tenant) {
      const row = database.one(
        'SELECT count(*) AS count, coalesce(sum(tenant = ?), 0) AS own FROM groups WHERE is_named = 0',
        tenant,
      );
      return { all: row ? integer(row, 'count') : 0, ofTenant: row ? integer(row, 'own') : 0 };
    },

    async unusedGroups(before) {
      return database
        .all(`SELECT id, model_id FROM groups WHERE ${unused} LIMIT 100`, before.named, before.unnamed)
        .map((row) => ({ id: text(row, 'id'), modelId: text(row, 'model_id') }));
    },

    async removeUnusedGroup(id, before) {
      const { named, unnamed } = before;
      return database.run(`DELETE FROM groups WHERE id = ?3 AND ${unused}`, named, unnamed, id) > 0;
    },
  };
}

/** Notes that a job or log names groups of a model. Returns false if it lacks one of them. Call it in a transaction. */
export function nameGroups(database: SqliteDatabase, modelId: string, ids: readonly string[]): boolean {
  const named = database.run(
    `UPDATE groups SET used_at = ?, is_named = 1
     WHERE model_id = ? AND id IN (SELECT value FROM json_each(?))`,
    Date.now(),
    modelId,
    JSON.stringify(ids),
  );
  return named === new Set(ids).size;
}

const toGroup = (row: Row): GroupRecord => ({
  id: text(row, 'id'),
  modelId: text(row, 'model_id'),
  tenant: text(row, 'tenant'),
  memberBytes: size(row, 'member_bytes'),
  bytes: size(row, 'bytes'),
  trajectories: integer(row, 'trajectories'),
  sampledTokens: integer(row, 'sampled_tokens'),
  trainableTokens: integer(row, 'trainable_tokens'),
});
