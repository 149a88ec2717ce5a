import { sqliteConstraints, sqliteIdempotencyKeys, sqliteUploads } from './sqlite-data.ts';
import { SqliteDatabase, size, text } from './sqlite-database.ts';
import { nameGroups, sqliteGroups } from './sqlite-groups.ts';
import { sqliteJobs } from './sqlite-jobs.ts';
import { sqliteModels } from './sqlite-models.ts';
import { hasModel, toLog } from './sqlite-rows.ts';
import type { Store } from './store.ts';

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
    ...sqliteGroups(database),
    ...sqliteConstraints(database),
    ...sqliteUploads(database),
    ...sqliteIdempotencyKeys(database),

    async logRecord(id) {
      return database.find(toLog, 'SELECT * FROM logs WHERE id = ?', id);
    },

    async logEnd(modelId, split) {
      return database.number(
        'SELECT max("offset" + bytes) FROM logs WHERE model_id = ? AND split = ?',
        modelId,
        split,
      );
    },

    async logEnds(modelId) {
      const rows = database.all(
        'SELECT split, max("offset" + bytes) AS "end" FROM logs WHERE model_id = ? GROUP BY split',
        modelId,
      );
      return new Map(rows.map((row) => [text(row, 'split'), size(row, 'end')]));
    },

    async insertLog({ modelId, createdAt, ...log }, groupIds = []) {
      return database.transaction(() => {
        if (!hasModel(database, modelId)) return false;
        const row = { ...log, model_id: modelId, created_at: createdAt };
        database.insert('logs', row, 'ON CONFLICT DO NOTHING');
        if (groupIds.length > 0) nameGroups(database, modelId, groupIds);
        return true;
      });
    },

    async check() {
      database.one('SELECT id FROM models LIMIT 1');
      database.checkWrite();
    },

    async close() {
      database.close();
    },
  };
}
