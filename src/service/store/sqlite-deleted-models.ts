import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SqliteDatabase } from './sqlite-database.ts';
import { text } from './sqlite-rows.ts';
import { checkpointsOf, unfinished } from './sqlite-statements.ts';
import type { CheckpointRecord } from './store.ts';

/**
 * What belongs to a model, in the order in which it can go, and how many rows of it go at once: each statement is a
 * transaction that holds the event loop. A job's config may be long.
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

/** Deletes a model's own row, which makes all that belongs to it one of no model. */
export function deleteModel(database: SqliteDatabase, id: string): CheckpointRecord[] | null {
  return database.transactionKeepingReferences(() => {
    if (database.one(`SELECT id FROM jobs WHERE model_id = ? AND ${unfinished}`, id)) return null;
    const checkpoints = checkpointsOf(database, id);
    database.run('INSERT INTO deleted_models (id) SELECT id FROM models WHERE id = ?', id);
    database.run('DELETE FROM models WHERE id = ?', id);
    return checkpoints;
  });
}

/** Removes what is left of deleted models, a few rows in each turn of the event loop. */
export async function clearDeletedModels(database: SqliteDatabase): Promise<void> {
  const next = () => database.one('SELECT id FROM deleted_models LIMIT 1');
  for (let row = next(); row; row = next()) {
    clearSome(database, text(row, 'id'));
    await nextTurn();
  }
}

/** Removes all that is left of a deleted model, so that one of the same id may come. */
export function clearDeletedModel(database: SqliteDatabase, id: string): void {
  while (database.one('SELECT id FROM deleted_models WHERE id = ?', id)) clearSome(database, id);
}

/** Where there is nothing left, it is forgotten that the model was there. */
function clearSome(database: SqliteDatabase, id: string): void {
  for (const { sql, rows } of parts) if (database.run(sql, id, rows) > 0) return;
  database.run('DELETE FROM deleted_models WHERE id = ?', id);
}
