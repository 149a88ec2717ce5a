import type { SqliteDatabase } from './sqlite-database.ts';
import { integer, text } from './sqlite-rows.ts';
import { readOne } from './sqlite-statements.ts';
import type { ConstraintRecord, ConstraintStore } from './store.ts';

/** How much of what its replies were sampled under is kept for one entity. */
export const constraintRoom = {
  /** Characters of JSON together. */
  characters: 2 ** 27,
  /** What one counts for at the least: with that, an entity has 32,768 at the most. */
  least: 4096,
} as const;

/** Those of keys without an entity stand under a name that no entity has. */
const nameOf = (entity: string | null) => entity ?? '';

/** `room`: other bounds for tests. */
export function sqliteConstraints(
  database: SqliteDatabase,
  room: { characters: number; least: number } = constraintRoom,
): ConstraintStore {
  /** Removes what was used longest ago, but for one, until the rest has room. */
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
        `SELECT json FROM entity_constraints WHERE hash = ?1 AND (?2 IS NULL OR entity = ?2)
           UNION ALL SELECT json FROM constraints WHERE hash = ?1 LIMIT 1`,
        ...[hash, entity],
      );
    },
  };
}
