import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { ServiceError } from '../errors.ts';
import { createStoredKey, hashKey, idOfKey, matchesKey } from '../keys.ts';

/** A key as it is listed: never the key itself. Times are ISO 8601. */
export interface KeyRecord {
  id: string;
  /** What its maker called it; empty where they did not. */
  name: string;
  createdAt: string;
  /** To the minute; null for a key that was never used. */
  lastUsedAt: string | null;
  revokedAt: string | null;
}

/** `last used` is written at most once in so long: a disk write for each request would cost more than it tells. */
const lastUsedEveryMs = 60_000;

const schema = `
  CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    revoked_at TEXT
  ) STRICT, WITHOUT ROWID;
`;

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
    this.#database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${schema}`);
    this.#find = this.#database.prepare('SELECT hash, revoked_at FROM keys WHERE id = ?');
  }

  /** Opens the keys of a data folder; the folder and the file are made where they are not there. */
  static open(dataFolder: string): KeyStore {
    mkdirSync(dataFolder, { recursive: true });
    const path = pathIn(dataFolder);
    // SQLite would make it for everybody to read; its side files take the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
    return new KeyStore(path);
  }

  /** Whether a data folder has ever had keys. */
  static isIn(dataFolder: string): boolean {
    return existsSync(pathIn(dataFolder));
  }

  /** Makes a key. This is the only time it can be seen. */
  create(name: string): { id: string; key: string } {
    const { id, key } = createStoredKey();
    this.#database
      .prepare('INSERT INTO keys (id, name, hash, created_at) VALUES (?, ?, ?, ?)')
      .run(id, name, hashKey(key), new Date().toISOString());
    return { id, key };
  }

  /** Every key there ever was, oldest first. */
  list(): KeyRecord[] {
    return this.#database.prepare('SELECT * FROM keys ORDER BY created_at, id').all().map(toRecord);
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

  /** The id of a valid key; undefined for any other text. Reads the file, so that a revocation counts at once. */
  check(key: string): string | undefined {
    const id = idOfKey(key) ?? '';
    const row = this.#find.get(id);
    const hash = row?.hash instanceof Uint8Array ? row.hash : this.#nobody;
    if (!matchesKey(key, hash) || row === undefined || row.revoked_at !== null) return undefined;
    this.#noteUse(id);
    return id;
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #noteUse(id: string): void {
    const now = Date.now();
    if (now - (this.#used.get(id) ?? 0) < lastUsedEveryMs) return;
    this.#used.set(id, now);
    try {
      this.#database
        .prepare('UPDATE keys SET last_used_at = ? WHERE id = ?')
        .run(new Date(now).toISOString(), id);
    } catch {
      // The command writes just now, or the disk is full: the next minute's use will be noted.
    }
  }
}

const pathIn = (dataFolder: string) => join(dataFolder, 'keys.sqlite');

function toRecord(row: Record<string, SQLOutputValue>): KeyRecord {
  const textOf = (column: string): string | null => {
    const value = row[column];
    if (value === null || typeof value === 'string') return value;
    throw new ServiceError(500, 'bad_key_file', `The column ${column} of the key file holds no text.`);
  };
  return {
    id: textOf('id') ?? '',
    name: textOf('name') ?? '',
    createdAt: textOf('created_at') ?? '',
    lastUsedAt: textOf('last_used_at'),
    revokedAt: textOf('revoked_at'),
  };
}
