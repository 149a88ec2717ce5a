import { SqliteDatabase } from './sqlite-database.ts';
import { sqliteJobs } from './sqlite-jobs.ts';
import { sqliteModels } from './sqlite-models.ts';
import { integer, text, toIdempotencyRecord, toLog } from './sqlite-rows.ts';
import { hasModel, readOne } from './sqlite-statements.ts';
import type { IdempotencyRecord, LogRecord, Store, UploadRecord } from './store.ts';

/**
 * The store in one SQLite file, opened for this process alone. Reads and writes run on the calling thread.
 * @throws ServiceError `data_folder_in_use` where another service has it open.
 */
export function openSqliteStore(path: string): Store {
  const database = new SqliteDatabase(path);
  return {
    ...sqliteModels(database),
    ...sqliteJobs(database),

    async putConstraint(hash: string, json: string): Promise<void> {
      database.run('INSERT INTO constraints (hash, json) VALUES (?, ?) ON CONFLICT DO NOTHING', hash, json);
    },

    async constraint(hash: string): Promise<string | undefined> {
      return readOne(
        database,
        (row) => text(row, 'json'),
        'SELECT json FROM constraints WHERE hash = ?',
        hash,
      );
    },

    async putUpload(upload: UploadRecord, entity: string | null): Promise<void> {
      database.transaction(() => {
        database.run(
          'INSERT INTO uploads (sha256, bytes, examples) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
          ...[upload.sha256, upload.bytes, upload.examples],
        );
        if (entity === null) return;
        database.run(
          'INSERT INTO entity_uploads (entity, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING',
          ...[entity, upload.sha256],
        );
      });
    },

    async upload(sha256: string, entity: string | null): Promise<UploadRecord | undefined> {
      return readOne(
        database,
        (row) => ({ sha256, bytes: integer(row, 'bytes'), examples: integer(row, 'examples') }),
        `SELECT bytes, examples FROM uploads WHERE sha256 = ?1
           AND (?2 IS NULL OR EXISTS (SELECT 1 FROM entity_uploads WHERE entity = ?2 AND sha256 = ?1))`,
        sha256,
        entity,
      );
    },

    async uploadHashes(): Promise<string[]> {
      return database.all('SELECT sha256 FROM uploads').map((row) => text(row, 'sha256'));
    },

    async logRecord(id: string): Promise<LogRecord | undefined> {
      return readOne(database, toLog, 'SELECT * FROM logs WHERE id = ?', id);
    },

    async logEnd(modelId: string, split: string): Promise<number> {
      const row = database.one(
        'SELECT coalesce(max("offset" + bytes), 0) AS "end" FROM logs WHERE model_id = ? AND split = ?',
        ...[modelId, split],
      );
      return row ? integer(row, 'end') : 0;
    },

    async logEnds(modelId: string): Promise<Map<string, number>> {
      const rows = database.all(
        'SELECT split, max("offset" + bytes) AS "end" FROM logs WHERE model_id = ? GROUP BY split',
        modelId,
      );
      return new Map(rows.map((row) => [text(row, 'split'), integer(row, 'end')]));
    },

    async insertLog(log: LogRecord): Promise<boolean> {
      return database.transaction(() => {
        if (!hasModel(database, log.modelId)) return false;
        database.run(
          `INSERT INTO logs (id, model_id, split, "offset", bytes, "groups", trajectories, created_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
          ...[log.id, log.modelId, log.split, log.offset, log.bytes],
          ...[log.groups, log.trajectories, log.createdAt],
        );
        return true;
      });
    },

    async reserveIdempotencyKey(record: IdempotencyRecord): Promise<IdempotencyRecord> {
      database.run(
        'INSERT INTO idempotency_keys (key, fingerprint, resource_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
        ...[record.key, record.fingerprint, record.resourceId],
      );
      const row = database.one('SELECT * FROM idempotency_keys WHERE key = ?', record.key);
      return row ? toIdempotencyRecord(row) : record;
    },

    async answerIdempotencyKey(
      key: string,
      answer: { status: number; body: unknown },
      modelId: string | null,
    ): Promise<void> {
      database.run(
        'UPDATE idempotency_keys SET status = ?, body = ?, model_id = ? WHERE key = ?',
        ...[answer.status, JSON.stringify(answer.body), modelId, key],
      );
    },

    async releaseIdempotencyKey(key: string): Promise<void> {
      database.run('DELETE FROM idempotency_keys WHERE key = ? AND status IS NULL', key);
    },

    async check(): Promise<void> {
      database.one('SELECT count(*) FROM models');
      database.checkWrite();
    },

    async close(): Promise<void> {
      database.close();
    },
  };
}
