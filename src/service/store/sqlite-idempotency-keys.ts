import type { SqliteDatabase } from './sqlite-database.ts';
import { text, textOrNull, toIdempotencyRecord } from './sqlite-rows.ts';
import { hasModel } from './sqlite-statements.ts';
import type { IdempotencyRecord, IdempotencyStore } from './store.ts';

const keysAtOnce = 100;

/** The model of what was made under an id, whatever it was. */
const ownerSql = `
  SELECT model_id AS id FROM jobs WHERE id = ?1
  UNION ALL SELECT model_id FROM logs WHERE id = ?1
  UNION ALL SELECT id FROM models WHERE id = ?1`;

/** Idempotency keys, each with what was made under it. */
export function sqliteIdempotencyKeys(database: SqliteDatabase): IdempotencyStore {
  const remove = (key: string) => database.run('DELETE FROM idempotency_keys WHERE key = ?', key);
  /** A key goes with its model. */
  const isGone = (modelId: string | null) => modelId !== null && !hasModel(database, modelId);

  return {
    async reserveIdempotencyKey(record: IdempotencyRecord): Promise<IdempotencyRecord> {
      return database.transaction(() => {
        const stored = database.one('SELECT * FROM idempotency_keys WHERE key = ?', record.key);
        if (stored && !isGone(textOrNull(stored, 'model_id'))) return toIdempotencyRecord(stored);
        if (stored) remove(record.key);
        database.run(
          'INSERT INTO idempotency_keys (key, fingerprint, resource_id, reserved_at) VALUES (?, ?, ?, ?)',
          ...[record.key, record.fingerprint, record.resourceId, Date.now()],
        );
        return record;
      });
    },

    async answerIdempotencyKey(
      key: string,
      answer: { status: number; body: unknown },
      modelId: string | null,
    ): Promise<void> {
      database.transaction(() => {
        // The model was deleted before its answer.
        if (isGone(modelId)) remove(key);
        else
          database.run(
            'UPDATE idempotency_keys SET status = ?, body = ?, model_id = ? WHERE key = ?',
            ...[answer.status, JSON.stringify(answer.body), modelId, key],
          );
      });
    },

    async releaseIdempotencyKey(key: string): Promise<void> {
      database.run('DELETE FROM idempotency_keys WHERE key = ? AND status IS NULL', key);
    },

    async forgetIdempotencyKeys(before: number): Promise<boolean> {
      return database.transaction(() => {
        const rows = database.all(
          'SELECT key, resource_id FROM idempotency_keys WHERE model_id IS NULL AND reserved_at < ? LIMIT ?',
          ...[before, keysAtOnce],
        );
        for (const row of rows) {
          const key = text(row, 'key');
          const tenant = database.one(ownerSql, text(row, 'resource_id'));
          const modelId = tenant ? text(tenant, 'id') : null;
          if (modelId === null || isGone(modelId)) remove(key);
          else database.run('UPDATE idempotency_keys SET model_id = ? WHERE key = ?', modelId, key);
        }
        return rows.length > 0;
      });
    },
  };
}
