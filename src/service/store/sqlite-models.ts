import { setImmediate as nextTick } from 'node:timers/promises';
import { integer, readPage, type SqliteDatabase, text } from './sqlite-database.ts';
import { checkpointsOf, insertCheckpoint, toCheckpoint, toModel, unfinished } from './sqlite-rows.ts';
import type { ModelStore } from './store.ts';

/** Models and their checkpoints. */
export function sqliteModels(database: SqliteDatabase): ModelStore {
  return {
    async insertModel(model, checkpoint) {
      return database.transaction(() => {
        // Remaining rows of a deleted model would belong to the new one.
        while (database.one('SELECT id FROM deleted_models WHERE id = ?', model.id))
          clearSome(database, model.id);
        const row = {
          id: model.id,
          entity: model.entity,
          project: model.project,
          name: model.name,
          base_model: model.baseModel,
          created_at: model.createdAt,
          last_step: model.lastStep,
          forked_from_model: model.forkedFrom?.modelId ?? null,
          forked_from_step: model.forkedFrom?.step ?? null,
        };
        if (database.insert('models', row, 'ON CONFLICT DO NOTHING') === 0) return false;
        insertCheckpoint(database, checkpoint);
        return true;
      });
    },

    async model(id) {
      return database.find(toModel, 'SELECT * FROM models WHERE id = ?', id);
    },

    async modelNamed(...fullName) {
      const sql = 'SELECT * FROM models WHERE entity = ? AND project = ? AND name = ?';
      return database.find(toModel, sql, ...fullName);
    },

    async models(page, entity) {
      const parent = entity === null ? undefined : ({ column: 'entity', id: entity } as const);
      return readPage(database, toModel, { table: 'models', order: 'sequence', parent }, page);
    },

    async *everyModel(entity) {
      const ofEntity = entity === null ? '' : 'AND entity = ?';
      for (let after = 0; ; ) {
        const rows = database.all(
          `SELECT * FROM models WHERE sequence > ? ${ofEntity} ORDER BY sequence LIMIT 100`,
          after,
          ...(entity === null ? [] : [entity]),
        );
        const last = rows.at(-1);
        if (!last) return;
        after = integer(last, 'sequence');
        yield rows.map(toModel);
      }
    },

    async deleteModel(id) {
      // Deletes the model's own row; `clearDeletedModels` removes the rows that refer to it.
      return database.transactionKeepingReferences(() => {
        if (database.one(`SELECT id FROM jobs WHERE model_id = ? AND ${unfinished}`, id)) return null;
        const checkpoints = checkpointsOf(database, id);
        database.run('INSERT INTO deleted_models (id) SELECT id FROM models WHERE id = ?', id);
        database.run('DELETE FROM models WHERE id = ?', id);
        return checkpoints;
      });
    },

    async clearDeletedModels() {
      const next = () => database.one('SELECT id FROM deleted_models LIMIT 1');
      for (let row = next(); row; row = next()) {
        clearSome(database, text(row, 'id'));
        await nextTick();
      }
    },

    async deletedModelIds() {
      return database.all('SELECT id FROM deleted_models').map((row) => text(row, 'id'));
    },

    async checkpoints(modelId, page) {
      const parent = { column: 'model_id', id: modelId } as const;
      return readPage(database, toCheckpoint, { table: 'checkpoints', order: 'step', parent }, page);
    },

    async allCheckpoints(modelId) {
      return checkpointsOf(database, modelId);
    },

    async checkpoint(modelId, step) {
      const sql = 'SELECT * FROM checkpoints WHERE model_id = ? AND step = ?';
      return database.find(toCheckpoint, sql, modelId, step);
    },

    async newestCheckpoint(modelId) {
      const sql = 'SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step DESC LIMIT 1';
      return database.find(toCheckpoint, sql, modelId);
    },

    async deleteCheckpoints(modelId, steps) {
      return database.transaction(() => {
        const checkpoints = checkpointsOf(database, modelId);
        const deleted = checkpoints.filter(({ step }) => steps.includes(step));
        if (deleted.length === checkpoints.length) return null;
        for (const { id } of deleted) database.run('DELETE FROM checkpoints WHERE id = ?', id);
        return deleted;
      });
    },
  };
}

/**
 * The rows of a model, in an order that keeps references valid, and how many of them are deleted at once:
 * each statement is a transaction that blocks the event loop. A job's config may be long.
 */
const parts = [
  {
    rows: 250,
    sql: `DELETE FROM events WHERE sequence IN
      (SELECT events.sequence FROM jobs JOIN events ON job_id = jobs.id WHERE model_id = ? LIMIT ?)`,
  },
  { rows: 20, sql: deletion('jobs', 'rowid') },
  { rows: 500, sql: deletion('groups', 'rowid') },
  { rows: 500, sql: deletion('logs', 'rowid') },
  { rows: 200, sql: deletion('checkpoints', 'rowid') },
  { rows: 200, sql: deletion('idempotency_keys', 'key') },
] as const;

function deletion(table: string, id: 'rowid' | 'key'): string {
  return `DELETE FROM ${table} WHERE ${id} IN (SELECT ${id} FROM ${table} WHERE model_id = ? LIMIT ?)`;
}

/** Removes some rows of a deleted model, or its mark in `deleted_models` once none are left. */
function clearSome(database: SqliteDatabase, id: string): void {
  for (const { sql, rows } of parts) if (database.run(sql, id, rows) > 0) return;
  database.run('DELETE FROM deleted_models WHERE id = ?', id);
}
