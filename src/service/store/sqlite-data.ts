import type { SqliteDatabase } from './sqlite-database.ts';
import { integer, text, textOrNull } from './sqlite-database.ts';
import { hasModel, readOne, toIdempotencyRecord, unfinished } from './sqlite-rows.ts';
import type {
  ConstraintRecord,
  ConstraintStore,
  IdempotencyRecord,
  IdempotencyStore,
  UploadRecord,
  UploadStore,
} from './store.ts';

const unused = `used_at < ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE upload_sha256 = sha256 AND ${unfinished})`;

/** Training data: records of files that are named by their hash. */
export function sqliteUploads(database: SqliteDatabase): UploadStore {
  return {
    async putUpload(upload: UploadRecord, entity: string | null): Promise<void> {
      database.transaction(() => {
        database.run(
          `INSERT INTO uploads (sha256, bytes, examples, used_at) VALUES (?, ?, ?, ?)
           ON CONFLICT (sha256) DO UPDATE SET used_at = excluded.used_at`,
          ...[upload.sha256, upload.bytes, upload.examples, Date.now()],
        );
        if (entity === null) return;
        database.run(
          'INSERT INTO entity_uploads (entity, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING',
          ...[entity, upload.sha256],
        );
      });
    },

    async hasUpload(sha256: string): Promise<boolean> {
      return database.one('SELECT sha256 FROM uploads WHERE sha256 = ?', sha256) !== undefined;
    },

    async useUpload(sha256: string, entity: string | null): Promise<UploadRecord | undefined> {
      return readOne(
        database,
        (row) => ({ sha256, bytes: integer(row, 'bytes'), examples: integer(row, 'examples') }),
        `UPDATE uploads SET used_at = ?3 WHERE sha256 = ?1
           AND (?2 IS NULL OR EXISTS (SELECT 1 FROM entity_uploads WHERE entity = ?2 AND sha256 = ?1))
         RETURNING bytes, examples`,
        ...[sha256, entity, Date.now()],
      );
    },

    async unusedUploads(before: number): Promise<string[]> {
      return database
        .all(`SELECT sha256 FROM uploads WHERE ${unused} LIMIT 20`, before)
        .map((row) => text(row, 'sha256'));
    },

    async removeUnusedUpload(sha256: string, before: number): Promise<boolean> {
      return database.run(`DELETE FROM uploads WHERE sha256 = ?2 AND ${unused}`, before, sha256) > 0;
    },

    async uploadHashes(): Promise<string[]> {
      return database.all('SELECT sha256 FROM uploads').map((row) => text(row, 'sha256'));
    },
  };
}

/** How many constraints are stored for one entity. */
export const constraintRoom = {
  /** Total characters of JSON. */
  characters: 2 ** 27,
  /** Characters that a constraint counts as at least: an entity has at most 32,768 constraints. */
  least: 4096,
} as const;

/** Keys without an entity use the empty name, which no entity has. */
const nameOf = (entity: string | null) => entity ?? '';

/** `room`: smaller limits for tests. */
export function sqliteConstraints(
  database: SqliteDatabase,
  room: { characters: number; least: number } = constraintRoom,
): ConstraintStore {
  /** Removes the least recently used constraints, except `needed`, until the rest fits. */
  const makeRoom = (entity: string, needed: string) => {
    const sum = database.one(
      'SELECT coalesce(sum(room), 0) AS taken FROM entity_constraints WHERE entity = ?',
      entity,
    );
    let taken = sum ? integer(sum, 'taken') : 0;
    while (taken > room.characters) {
      const oldest = database.one(
        `SELECT rowid AS place, room FROM entity_constraints WHERE entity = ? AND hash <> ?
           ORDER BY used_at, room LIMIT 1`,
        ...[entity, needed],
      );
      if (!oldest) return;
      database.run('DELETE FROM entity_constraints WHERE rowid = ?', integer(oldest, 'place'));
      taken -= integer(oldest, 'room');
    }
  };
  return {
    async keepConstraint({ hash, json, usedAt }: ConstraintRecord, entity: string | null): Promise<void> {
      database.transaction(() => {
        database.run(
          `INSERT INTO entity_constraints (entity, hash, used_at, room, json) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET used_at = excluded.used_at`,
          ...[nameOf(entity), hash, usedAt, Math.max(room.least, json.length), json],
        );
        makeRoom(nameOf(entity), hash);
      });
    },

    async constraintUsedAt(hash: string, entity: string | null): Promise<number | undefined> {
      return readOne(
        database,
        (row) => integer(row, 'used_at'),
        'SELECT used_at FROM entity_constraints WHERE entity = ? AND hash = ?',
        ...[nameOf(entity), hash],
      );
    },

    async constraint(hash: string, entity: string | null): Promise<string | undefined> {
      return readOne(
        database,
        (row) => text(row, 'json'),
        'SELECT json FROM entity_constraints WHERE hash = ?1 AND (?2 IS NULL OR entity = ?2) LIMIT 1',
        ...[hash, entity],
      );
    },
  };
}

const keysAtOnce = 100;

/** The model of a resource id: a job, a log record or a model. */
const ownerSql = `
  SELECT model_id AS id FROM jobs WHERE id = ?1
  UNION ALL SELECT model_id FROM logs WHERE id = ?1
  UNION ALL SELECT id FROM models WHERE id = ?1`;

/** Idempotency keys with the ids of their resources. */
export function sqliteIdempotencyKeys(database: SqliteDatabase): IdempotencyStore {
  const remove = (key: string) => database.run('DELETE FROM idempotency_keys WHERE key = ?', key);
  /** Whether the key is void because its model was deleted. */
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
        // The model may have been deleted meanwhile.
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
