import type { SqliteDatabase } from './sqlite-database.ts';
import { integer, text } from './sqlite-rows.ts';
import { readOne, unfinished } from './sqlite-statements.ts';
import type { UploadRecord, UploadStore } from './store.ts';

const unused = `used_at < ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE upload_sha256 = sha256 AND ${unfinished})`;

/** Training data: the records of files that are called by their content. */
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
