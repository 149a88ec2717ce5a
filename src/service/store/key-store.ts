import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { SQLOutputValue, StatementSync } from 'node:sqlite';
import { namePartPattern } from '../../contract/index.ts';
import { DatabaseSync } from '../../platform/sqlite.ts';
import { ServiceError } from '../errors.ts';
import { createStoredKey, hashKey, idOfKey, matchesKey } from '../keys.ts';
import { createPrivately, makeFolder } from './durable-files.ts';
import { keySchema, prepareSchema } from './schema.ts';

/** A key as it is listed: never the key itself. Times are ISO 8601. */
export interface KeyRecord {
  id: string;
  /** What its maker called it; empty where they did not. */
  name: string;
  /** The one entity whose models it sees; null for a key that sees all of them. */
  entity: string | null;
  createdAt: string;
  /** To the minute; null for a key that was never used. */
  lastUsedAt: string | null;
  revokedAt: string | null;
}

/** `last used` is written at most once in so long: a disk write for each request would cost more than it tells. */
const lastUsedEveryMs = 60_000;

/**
 * The API keys of a data folder, in a database of their own: a running service and the `keys` command open it side by
 * side, and what one writes the other reads at its next look. Of a key only the SHA-256 is kept.
 */
export class KeyStore {
  readonly #database: DatabaseSync;
  readonly #find: StatementSync;
  readonly #used = new Map<string, number>();
  /** Stands in for the hash of an id that does not exist, so that it costs the same comparison. */
  readonly #nobody = randomBytes(32);

  private constructor(path: string) {
    this.#database = new DatabaseSync(path, { timeout: 2000 });
    this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    prepareSchema(this.#database, keySchema);
    this.#find = this.#database.prepare('SELECT hash, entity, revoked_at FROM keys WHERE id = ?');
  }

  /** Opens the keys of a data folder; the folder and the file are made where they are not there. */
  static open(dataFolder: string): KeyStore {
    makeFolder(resolve(dataFolder));
    const path = pathIn(dataFolder);
    createPrivately(path);
    return new KeyStore(path);
  }

  /** Whether a data folder has ever had keys. */
  static isIn(dataFolder: string): boolean {
    return existsSync(pathIn(dataFolder));
  }

  /**
   * Makes a key. This is the only time it can be seen.
   *
   * @param options.entity The one entity whose models the key sees. Default null: all of them.
   * @throws ServiceError `bad_option` for what is no name of an entity.
   */
  create(name: string, { entity = null }: { entity?: string | null } = {}): { id: string; key: string } {
    if (entity !== null && !namePartPattern.test(entity))
      throw new ServiceError(
        500,
        'bad_option',
        `${JSON.stringify(entity)} is no name of an entity; it is 1 to 128 letters, digits, dots, underscores or hyphens, and begins with a letter or digit.`,
      );
    const { id, key } = createStoredKey();
    this.#database
      .prepare(
        `INSERT INTO keys (id, name, hash, created_at, entity, number)
           VALUES (?, ?, ?, ?, ?, (SELECT coalesce(max(number), 0) + 1 FROM keys))`,
      )
      .run(id, name, hashKey(key), new Date().toISOString(), entity);
    return { id, key };
  }

  /** Every key there ever was, oldest first. */
  list(): KeyRecord[] {
    return this.#database.prepare('SELECT * FROM keys ORDER BY number').all().map(toRecord);
  }

  /** Ends a key for good. Returns its record as it was before; undefined where there is no such key. */
  revoke(id: string): KeyRecord | undefined {
    const row = this.#database.prepare('SELECT * FROM keys WHERE id = ?').get(id);
    if (row === undefined) return undefined;
    this.#database
      .prepare('UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL')
      .run(new Date().toISOString(), id);
    return toRecord(row);
  }

  /** How many keys are valid. */
  countValid(): number {
    const row = this.#database.prepare('SELECT count(*) AS count FROM keys WHERE revoked_at IS NULL').get();
    return Number(row?.count ?? 0);
  }

  /**
   * The id and the entity of a valid key; undefined for any other text. Reads the file, so that a revocation counts
   * at once.
   */
  check(key: string): Pick<KeyRecord, 'id' | 'entity'> | undefined {
    const id = idOfKey(key) ?? '';
    const row = this.#find.get(id);
    const hash = row?.hash instanceof Uint8Array ? row.hash : this.#nobody;
    if (!matchesKey(key, hash) || row === undefined || row.revoked_at !== null) return undefined;
    this.#noteUse(id);
    return { id, entity: textOrNull(row, 'entity') };
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #noteUse(id: string): void {
    const now = performance.now();
    if (now - (this.#used.get(id) ?? Number.NEGATIVE_INFINITY) < lastUsedEveryMs) return;
    this.#used.set(id, now);
    try {
      this.#database
        .prepare('UPDATE keys SET last_used_at = ? WHERE id = ?')
        .run(new Date().toISOString(), id);
    } catch {
      // The command writes just now, or the disk is full: the next minute's use will be noted.
    }
  }
}

const pathIn = (dataFolder: string) => join(dataFolder, 'keys.sqlite');

function textOrNull(row: Record<string, SQLOutputValue>, column: string): string | null {
  const value = row[column];
  if (value === null || typeof value === 'string') return value;
  throw new ServiceError(500, 'bad_key_file', `The column ${column} of the key file holds no text.`);
}

function toRecord(row: Record<string, SQLOutputValue>): KeyRecord {
  return {
    id: textOrNull(row, 'id') ?? '',
    name: textOrNull(row, 'name') ?? '',
    entity: textOrNull(row, 'entity'),
    createdAt: textOrNull(row, 'created_at') ?? '',
    lastUsedAt: textOrNull(row, 'last_used_at'),
    revokedAt: textOrNull(row, 'revoked_at'),
  };
}
