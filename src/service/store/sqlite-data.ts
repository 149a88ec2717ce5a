import { integer, type SqliteDatabase, text, textOrNull } from './sqlite-database.ts';
import { hasModel, toIdempotencyRecord, unfinished } from './sqlite-rows.ts';
import type { ConstraintStore, IdempotencyStore, UploadStore } from './store.ts';

const unused = `used_at < ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE upload_sha256 = sha256 AND ${unfinished})`;

/** Training data: records of files that are named by their hash. */
export function sqliteUploads(database: SqliteDatabase): UploadStore {
  return {
    async putUpload({ sha256, bytes, examples }, entity) {
      database.transaction(() => {
        const update = 'ON CONFLICT (sha256) DO UPDATE SET used_at = excluded.used_at';
        database.insert('uploads', { sha256, bytes, examples, used_at: Date.now() }, update);
        if (entity !== null) database.insert('entity_uploads', { entity, sha256 }, 'ON CONFLICT DO NOTHING');
      });
    },

    async hasUpload(sha256) {
      return database.one('SELECT sha256 FROM uploads WHERE sha256 = ?', sha256) !== undefined;
    },

    async useUpload(sha256, entity) {
      return database.find(
        (row) => ({ sha256, bytes: integer(row, 'bytes'), examples: integer(row, 'examples') }),
        `UPDATE uploads SET used_at = ?3 WHERE sha256 = ?1
           AND (?2 IS NULL OR EXISTS (SELECT 1 FROM entity_uploads WHERE entity = ?2 AND sha256 = ?1))
         RETURNING bytes, examples`,
        sha256,
        entity,
        Date.now(),
      );
    },

    async unusedUploads(before) {
      return database
        .all(`SELECT sha256 FROM uploads WHERE ${unused} LIMIT 20`, before)
        .map((row) => text(row, 'sha256'));
    },

    async removeUnusedUpload(sha256, before) {
      return database.run(`DELETE FROM uploads WHERE sha256 = ?2 AND ${unused}`, before, sha256) > 0;
    },

    async uploadHashes() {
      return database.all('SELECT sha256 FROM uploads').map((row) => text(row, 'sha256'));
    },
  };
}

/** How many constraints are stored for one entity. */
const constraintLimits = {
  /** Total characters of JSON. */
  characters: 2 ** 27,
  /** Characters that a constraint counts as at least: an entity has at most 32,768 constraints. */
  minCharacters: 4096,
} as const;

/** Keys without an entity use the empty name, which no entity has. */
const nameOf = (entity: string | null) => entity ?? '';

/** `limits`: smaller ones for tests. */
export function sqliteConstraints(
  database: SqliteDatabase,
  limits: { characters: number; minCharacters: number } = constraintLimits,
): ConstraintStore {
  /** Removes the least recently used constraints, except `needed`, until the rest is within the limit. */
  const removeOldest = (entity: string, needed: string) => {
    let total = database.number('SELECT sum(room) FROM entity_constraints WHERE entity = ?', entity);
    while (total > limits.characters) {
      const oldest = database.one(
        `SELECT rowid AS row_id, room FROM entity_constraints WHERE entity = ? AND hash <> ?
           ORDER BY used_at, room LIMIT 1`,
        entity,
        needed,
      );
      if (!oldest) return;
      database.run('DELETE FROM entity_constraints WHERE rowid = ?', integer(oldest, 'row_id'));
      total -= integer(oldest, 'room');
    }
  };
  return {
    async keepConstraint({ hash, json, usedAt }, entity) {
      database.transaction(() => {
        const room = Math.max(limits.minCharacters, json.length);
        const row = { entity: nameOf(entity), hash, used_at: usedAt, room, json };
        database.insert('entity_constraints', row, 'ON CONFLICT DO UPDATE SET used_at = excluded.used_at');
        removeOldest(nameOf(entity), hash);
      });
    },

    async constraintUsedAt(hash, entity) {
      const sql = 'SELECT used_at FROM entity_constraints WHERE entity = ? AND hash = ?';
      return database.find((row) => integer(row, 'used_at'), sql, nameOf(entity), hash);
    },

    async constraint(hash, entity) {
      const sql =
        'SELECT json FROM entity_constraints WHERE hash = ?1 AND (?2 IS NULL OR entity = ?2) LIMIT 1';
      return database.find((row) => text(row, 'json'), sql, hash, entity);
    },
  };
}

const keysAtOnce = 100;

/** The model of a resource id: a job, a log record or a model. */
const modelOfResource = `
  SELECT model_id AS id FROM jobs WHERE id = ?1
  UNION ALL SELECT model_id FROM logs WHERE id = ?1
  UNION ALL SELECT id FROM models WHERE id = ?1`;

/** Idempotency keys with the ids of their resources. */
export function sqliteIdempotencyKeys(database: SqliteDatabase): IdempotencyStore {
  const remove = (key: string) => database.run('DELETE FROM idempotency_keys WHERE key = ?', key);
  const isDeleted = (modelId: string | null) => modelId !== null && !hasModel(database, modelId);

  return {
    async reserveIdempotencyKey(record) {
      return database.transaction(() => {
        const stored = database.one('SELECT * FROM idempotency_keys WHERE key = ?', record.key);
        // The key of a deleted model is void.
        if (stored && !isDeleted(textOrNull(stored, 'model_id'))) return toIdempotencyRecord(stored);
        if (stored) remove(record.key);
        const { key, fingerprint, resourceId } = record;
        const row = { key, fingerprint, resource_id: resourceId, reserved_at: Date.now() };
        database.insert('idempotency_keys', row);
        return record;
      });
    },

    async answerIdempotencyKey(key, { status, body }, modelId) {
      database.transaction(() => {
        // The model may have been deleted meanwhile.
        if (isDeleted(modelId)) remove(key);
        else
          database.run(
            'UPDATE idempotency_keys SET status = ?, body = ?, model_id = ? WHERE key = ?',
            status,
            JSON.stringify(body),
            modelId,
            key,
          );
      });
    },

    async releaseIdempotencyKey(key) {
      database.run('DELETE FROM idempotency_keys WHERE key = ? AND status IS NULL', key);
    },

    async forgetIdempotencyKeys(before) {
      return database.transaction(() => {
        const rows = database.all(
          'SELECT key, resource_id FROM idempotency_keys WHERE model_id IS NULL AND reserved_at < ? LIMIT ?',
          before,
          keysAtOnce,
        );
        for (const row of rows) {
          const key = text(row, 'key');
          const readId = (model: typeof row) => text(model, 'id');
          const modelId = database.find(readId, modelOfResource, text(row, 'resource_id')) ?? null;
          if (modelId === null || isDeleted(modelId)) remove(key);
          else database.run('UPDATE idempotency_keys SET model_id = ? WHERE key = ?', modelId, key);
        }
        return rows.length > 0;
      });
    },
  };
}
