import { setImmediate as nextTurn } from 'node:timers/promises';
import { integer, readPage, type SqliteDatabase, text } from './sqlite-database.ts';
import {
  checkpointsOf,
  insertCheckpoint,
  readOne,
  toCheckpoint,
  toModel,
  unfinished,
} from './sqlite-rows.ts';
import type { CheckpointRecord, ModelRecord, ModelStore, PageRequest, StoredPage } from './store.ts';

/** Models and their checkpoints. */
export function sqliteModels(database: SqliteDatabase): ModelStore {
  return {
    async insertModel(model: ModelRecord, checkpoint: CheckpointRecord): Promise<boolean> {
      return database.transaction(() => {
        clearDeletedModel(database, model.id);
        const inserted = database.run(
          `INSERT INTO models
             (id, entity, project, name, base_model, created_at, last_step, forked_from_model, forked_from_step)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
          ...[model.id, model.entity, model.project, model.name, model.baseModel],
          ...[model.createdAt, model.lastStep],
          ...[model.forkedFrom?.modelId ?? null, model.forkedFrom?.step ?? null],
        );
        if (inserted === 0) return false;
        insertCheckpoint(database, checkpoint);
        return true;
      });
    },

    async model(id: string): Promise<ModelRecord | undefined> {
      return readOne(database, toModel, 'SELECT * FROM models WHERE id = ?', id);
    },

    async modelNamed(entity: string, project: string, name: string): Promise<ModelRecord | undefined> {
      return readOne(
        database,
        toModel,
        'SELECT * FROM models WHERE entity = ? AND project = ? AND name = ?',
        ...[entity, project, name],
      );
    },

    async models(page: PageRequest, entity: string | null): Promise<StoredPage<ModelRecord>> {
      const tenant = entity === null ? undefined : ({ column: 'entity', id: entity } as const);
      return readPage(database, toModel, { table: 'models', order: 'sequence', tenant }, page);
    },

    async *everyModel(entity: string | null): AsyncGenerator<ModelRecord[]> {
      const owned = entity === null ? '' : 'AND entity = ?';
      for (let after = 0; ; ) {
        const rows = database.all(
          `SELECT * FROM models WHERE sequence > ? ${owned} ORDER BY sequence LIMIT 100`,
          ...[after, ...(entity === null ? [] : [entity])],
        );
        const last = rows.at(-1);
        if (!last) return;
        after = integer(last, 'sequence');
        yield rows.map(toModel);
      }
    },

    async deleteModel(id: string): Promise<CheckpointRecord[] | null> {
      return deleteModel(database, id);
    },

    async clearDeletedModels(): Promise<void> {
      await clearDeletedModels(database);
    },

    async checkpoints(modelId: string, page: PageRequest): Promise<StoredPage<CheckpointRecord>> {
      return readPage(
        database,
        toCheckpoint,
        { table: 'checkpoints', order: 'step', tenant: { column: 'model_id', id: modelId } },
        page,
      );
    },

    async allCheckpoints(modelId: string): Promise<CheckpointRecord[]> {
      return checkpointsOf(database, modelId);
    },

    async checkpoint(modelId: string, step: number): Promise<CheckpointRecord | undefined> {
      return readOne(
        database,
        toCheckpoint,
        'SELECT * FROM checkpoints WHERE model_id = ? AND step = ?',
        modelId,
        step,
      );
    },

    async newestCheckpoint(modelId: string): Promise<CheckpointRecord | undefined> {
      return readOne(
        database,
        toCheckpoint,
        'SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step DESC LIMIT 1',
        modelId,
      );
    },

    async deleteCheckpoints(modelId: string, steps: number[]): Promise<CheckpointRecord[] | null> {
      return database.transaction(() => {
        const checkpoints = checkpointsOf(database, modelId);
        const going = checkpoints.filter(({ step }) => steps.includes(step));
        if (going.length === checkpoints.length) return null;
        for (const { id } of going) database.run('DELETE FROM checkpoints WHERE id = ?', id);
        return going;
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
  { rows: 500, sql: deletion('logs', 'rowid') },
  { rows: 200, sql: deletion('checkpoints', 'rowid') },
  { rows: 200, sql: deletion('idempotency_keys', 'key') },
] as const;

function deletion(table: string, id: 'rowid' | 'key'): string {
  return `DELETE FROM ${table} WHERE ${id} IN (SELECT ${id} FROM ${table} WHERE model_id = ? LIMIT ?)`;
}

/** Deletes a model's own row; the rows that refer to it are removed later. */
export function deleteModel(database: SqliteDatabase, id: string): CheckpointRecord[] | null {
  return database.transactionKeepingReferences(() => {
    if (database.one(`SELECT id FROM jobs WHERE model_id = ? AND ${unfinished}`, id)) return null;
    const checkpoints = checkpointsOf(database, id);
    database.run('INSERT INTO deleted_models (id) SELECT id FROM models WHERE id = ?', id);
    database.run('DELETE FROM models WHERE id = ?', id);
    return checkpoints;
  });
}

/** Removes the remaining rows of deleted models, a few per tick. */
export async function clearDeletedModels(database: SqliteDatabase): Promise<void> {
  const next = () => database.one('SELECT id FROM deleted_models LIMIT 1');
  for (let row = next(); row; row = next()) {
    clearSome(database, text(row, 'id'));
    await nextTurn();
  }
}

/** Removes all remaining rows of a deleted model, so that its id can be used again. */
export function clearDeletedModel(database: SqliteDatabase, id: string): void {
  while (database.one('SELECT id FROM deleted_models WHERE id = ?', id)) clearSome(database, id);
}

/** Removes some rows of a deleted model, or its mark in `deleted_models` once none are left. */
function clearSome(database: SqliteDatabase, id: string): void {
  for (const { sql, rows } of parts) if (database.run(sql, id, rows) > 0) return;
  database.run('DELETE FROM deleted_models WHERE id = ?', id);
}
