import { sqliteConstraints, sqliteIdempotencyKeys, sqliteUploads } from './sqlite-data.ts';
import { integer, SqliteDatabase, text } from './sqlite-database.ts';
import { sqliteJobs } from './sqlite-jobs.ts';
import { sqliteModels } from './sqlite-models.ts';
import { hasModel, readOne, toLog } from './sqlite-rows.ts';
import type { LogRecord, Store } from './store.ts';

/**
 * The store in one SQLite file, locked for this process. Reads and writes run on the calling thread.
 *
 * @throws ServiceError `data_folder_in_use` if another service has it open.
 */
export function openSqliteStore(path: string): Store {
  const database = new SqliteDatabase(path);
  return {
    ...sqliteModels(database),
    ...sqliteJobs(database),
    ...sqliteConstraints(database),
    ...sqliteUploads(database),
    ...sqliteIdempotencyKeys(database),

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

    async check(): Promise<void> {
      database.one('SELECT id FROM models LIMIT 1');
      database.checkWrite();
    },

    async close(): Promise<void> {
      database.close();
    },
  };
}
