import type { SqliteDatabase } from './sqlite-database.ts';
import { type Row, toCheckpoint } from './sqlite-rows.ts';
import type { CheckpointRecord } from './store.ts';

/** Condition on `jobs`: those that wait or run. */
export const unfinished = "status IN ('queued', 'running')";

export function readOne<Item>(
  database: SqliteDatabase,
  read: (row: Row) => Item,
  sql: string,
  ...values: (string | number | null)[]
): Item | undefined {
  const row = database.one(sql, ...values);
  return row === undefined ? undefined : read(row);
}

export function hasModel(database: SqliteDatabase, id: string): boolean {
  return database.one('SELECT id FROM models WHERE id = ?', id) !== undefined;
}

export function checkpointsOf(database: SqliteDatabase, modelId: string): CheckpointRecord[] {
  return database
    .all('SELECT * FROM checkpoints WHERE model_id = ? ORDER BY step', modelId)
    .map(toCheckpoint);
}

export function insertCheckpoint(database: SqliteDatabase, checkpoint: CheckpointRecord): void {
  database.run(
    'INSERT INTO checkpoints (id, model_id, step, folder, metrics, created_at) VALUES (?, ?, ?, ?, ?, ?)',
    ...[checkpoint.id, checkpoint.modelId, checkpoint.step, checkpoint.folder],
    JSON.stringify(checkpoint.metrics),
    checkpoint.createdAt,
  );
}
