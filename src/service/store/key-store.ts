import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { SQLOutputValue, StatementSync } from 'node:sqlite';
import { DatabaseSync } from '../../platform/sqlite.ts';
import { makeFolder } from '../../util/durable-files.ts';
import { checkEntity, hashKey, matchesKey } from '../access.ts';
import { ServiceError } from '../errors.ts';
import { createPrivately } from './durable-files.ts';
import { keySchema, prepareSchema } from './schema.ts';

/** An API key as `keys list` shows it, without the key itself. Times are ISO 8601. */
export interface KeyRecord {
  id: string;
  /** The name from its creation; may be empty. */
  name: string;
  /** The only entity whose models the key can see; null for all entities. */
  entity: string | null;
  createdAt: string;
  /** Accurate to a minute; null if never used. */
  lastUsedAt: string | null;
  revokedAt: string | null;
}

/** How often `last_used_at` is written at most: a disk write per request would be too expensive. */
const lastUsedEveryMs = 60_000;

/**
 * The API keys of a data folder, in their own database: a running service and the `keys` command can both
 * open it, and each sees the other's changes at its next read. Only the SHA-256 of a key is stored.
 */
export class KeyStore {
  readonly #database: DatabaseSync;
  readonly #find: StatementSync;
  readonly #used = new Map<string, number>();
  /** Compared for unknown ids, so that they take as long as known ones. */
  readonly #unmatchable = randomBytes(32);

  private constructor(path: string) {
    this.#database = new DatabaseSync(path, { timeout: 2000 });
    this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    prepareSchema(this.#database, keySchema);
    this.#find = this.#database.prepare('SELECT hash, entity, revoked_at FROM keys WHERE id = ?');
  }

  /** Opens the key store of a data folder and creates both if they are missing. */
  static async open(dataFolder: string): Promise<KeyStore> {
    await makeFolder(dataFolder);
    const path = pathIn(dataFolder);
    createPrivately(path);
    return new KeyStore(path);
  }

  /** Whether the data folder has a key store. */
  static isIn(dataFolder: string): boolean {
    return existsSync(pathIn(dataFolder));
  }

  /**
   * Creates a key, `mg-<id>-<secret>`: the id finds its record, the secret has 256 random bits. The
   * returned text is the only copy.
   *
   * @param options.entity The only entity whose models the key can see. Default null: all entities.
   * @throws ServiceError `bad_option` for an invalid entity name.
   */
  create(name: string, { entity = null }: { entity?: string | null } = {}): { id: string; key: string } {
    if (entity !== null) checkEntity(entity);
    const id = randomBytes(8).toString('hex');
    const key = `mg-${id}-${randomBytes(32).toString('base64url')}`;
    this.#database
      .prepare(
        `INSERT INTO keys (id, name, hash, created_at, entity, number)
           VALUES (?, ?, ?, ?, ?, (SELECT coalesce(max(number), 0) + 1 FROM keys))`,
      )
      .run(id, name, hashKey(key), new Date().toISOString(), entity);
    return { id, key };
  }

  /** All keys, revoked ones too, oldest first. */
  list(): KeyRecord[] {
    return this.#database.prepare('SELECT * FROM keys ORDER BY number').all().map(toRecord);
  }

  /** Revokes a key permanently. Returns its record from before; undefined if there is no such key. */
  revoke(id: string): KeyRecord | undefined {
    const row = this.#database.prepare('SELECT * FROM keys WHERE id = ?').get(id);
    if (row === undefined) return undefined;
    this.#database
      .prepare('UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL')
      .run(new Date().toISOString(), id);
    return toRecord(row);
  }

  /** The number of valid keys. */
  countValid(): number {
    const row = this.#database.prepare('SELECT count(*) AS count FROM keys WHERE revoked_at IS NULL').get();
    return Number(row?.count ?? 0);
  }

  /**
   * The id and entity of a valid key; undefined for any other text. Reads the file, so that a revocation
   * takes effect at once.
   */
  check(key: string): Pick<KeyRecord, 'id' | 'entity'> | undefined {
    const id = /^mg-([0-9a-f]{16})-[\w-]{43}$/.exec(key)?.[1] ?? '';
    const row = this.#find.get(id);
    const hash = row?.hash instanceof Uint8Array ? row.hash : this.#unmatchable;
    if (!matchesKey(key, hash) || row === undefined || row.revoked_at !== null) return undefined;
    this.#recordUse(id);
    return { id, entity: textOrNull(row, 'entity') };
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #recordUse(id: string): void {
    const now = performance.now();
    if (now - (this.#used.get(id) ?? Number.NEGATIVE_INFINITY) < lastUsedEveryMs) return;
    this.#used.set(id, now);
    try {
      this.#database
        .prepare('UPDATE keys SET last_used_at = ? WHERE id = ?')
        .run(new Date().toISOString(), id);
    } catch {
      // The `keys` command is writing or the disk is full; the use is recorded in the next minute.
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
