import type { SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { DatabaseSync } from '../../platform/sqlite.ts';
import { damagedRecord, ServiceError, unknownCursor } from '../errors.ts';
import { createPrivately } from './durable-files.ts';
import { checkObjects, prepareSchema, storeSchema } from './schema.ts';
import type { PageRequest, StoredPage } from './store.ts';

export type Row = Record<string, SQLOutputValue>;

/** A SQLite file with the current schema and cached prepared statements, which one process at a time has open. */
export class SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #lock: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string) {
    this.#lock = lockOf(path);
    try {
      this.#database = openDatabase(path);
      this.checkWrite();
    } catch (cause) {
      this.close();
      throw damagedDatabase(path, cause) ?? cause;
    }
  }

  /** @throws ServiceError `data_folder_in_use` if a process has it open. */
  static check(path: string): void {
    lockOf(path).close();
  }

  all(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#prepare(sql).all(...values);
  }

  one(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#prepare(sql).get(...values);
  }

  /** Reads the first row; undefined if there is none. */
  find<Item>(read: (row: Row) => Item, sql: string, ...values: SQLInputValue[]): Item | undefined {
    const row = this.one(sql, ...values);
    return row && read(row);
  }

  /** The number in the first row's only column; 0 if there is no row or it is null. */
  number(sql: string, ...values: SQLInputValue[]): number {
    return Number(Object.values(this.one(sql, ...values) ?? {})[0] ?? 0);
  }

  /** Inserts a row and returns the number of changed rows: 0 if `onConflict` says to do nothing. */
  insert(table: string, row: Record<string, SQLInputValue>, onConflict = ''): number {
    const columns = Object.keys(row).map((name) => `"${name}"`);
    return this.run(
      `INSERT INTO ${table} (${columns}) VALUES (${columns.map(() => '?')}) ${onConflict}`,
      ...Object.values(row),
    );
  }

  /** Runs a statement and returns the number of changed rows. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#prepare(sql).run(...values).changes);
  }

  transaction<Result>(work: () => Result): Result {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      this.#database.exec('COMMIT');
      return result;
    } catch (error) {
      // SQLite itself ends a transaction when the disk is full or broken; then there is nothing to roll
      // back.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  /** A transaction that may delete rows while others still refer to them. */
  transactionKeepingReferences<Result>(work: () => Result): Result {
    // The pragma has no effect inside a transaction.
    this.#database.exec('PRAGMA foreign_keys = OFF');
    try {
      return this.transaction(work);
    } finally {
      this.#database.exec('PRAGMA foreign_keys = ON');
    }
  }

  /** Rewrites an unchanged value. Throws if the file is not writable. */
  checkWrite(): void {
    this.transaction(() => this.#database.exec(`PRAGMA user_version = ${storeSchema.version}`));
  }

  close(): void {
    // It may not have been opened.
    if (this.#database?.isOpen) this.#database.close();
    if (this.#lock.isOpen) this.#lock.close();
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

function openDatabase(path: string): DatabaseSync {
  createPrivately(path);
  const database = new DatabaseSync(path, { timeout: 10_000 });
  try {
    database.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA foreign_keys = ON;
      PRAGMA trusted_schema = OFF;
      PRAGMA cell_size_check = ON;
    `);
    prepareSchema(database, storeSchema);
    checkObjects(database, storeSchema);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Two services on one data folder would run every job twice. The lock is a transaction on a file of its own, so that a
 * backup can read the database meanwhile; it ends with the process.
 */
function lockOf(path: string): DatabaseSync {
  const lockPath = `${path}.lock`;
  createPrivately(lockPath);
  const lock = new DatabaseSync(lockPath);
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (cause) {
    lock.close();
    if (!(cause instanceof Error && /locked|busy/i.test(cause.message))) throw cause;
    throw new ServiceError(
      500,
      'data_folder_in_use',
      `${path} is in use by another service; stop that one or choose another data folder.`,
      { cause },
    );
  }
}

/** SQLite's codes for a file that is damaged, or is no database. */
const damageCodes: readonly unknown[] = [11, 26];

/** The error for a damaged file; null if the cause is another. */
export function damagedDatabase(path: string, cause: unknown): ServiceError | null {
  const isDamage =
    cause instanceof Error && 'errcode' in cause && damageCodes.includes(Number(cause.errcode) & 0xff);
  if (!isDamage) return null;
  return new ServiceError(
    500,
    'database_damaged',
    `${path} is damaged: ${cause.message}. Nothing was changed. Restore a backup of the folder, or make records anew ` +
      'from the files with `martingale doctor --data <folder> --repair`, which keeps the damaged database.',
    { cause },
  );
}

/** A list that is read in pages: rows of a table, optionally of one parent, ordered by a unique column. */
interface PagedList {
  table: 'models' | 'checkpoints' | 'jobs' | 'events';
  order: 'sequence' | 'step';
  parent?: { column: 'entity' | 'model_id' | 'job_id'; id: string } | undefined;
}

/** Reads the page after the item with id `after`. An `after` that is not in the list gets a 422. */
export function readPage<Item>(
  database: SqliteDatabase,
  read: (row: Row) => Item,
  { table, order, parent }: PagedList,
  page: PageRequest,
): StoredPage<Item> {
  const conditions = parent ? [`${parent.column} = ?`] : ['1'];
  const values: (string | number)[] = parent ? [parent.id] : [];
  if (page.after !== undefined && page.after !== '') {
    const seen = database.one(
      `SELECT ${order} AS position FROM ${table} WHERE ${conditions.join(' AND ')} AND id = ?`,
      ...values,
      page.after,
    );
    if (!seen) throw unknownCursor(page.after);
    conditions.push(`${order} ${page.order === 'asc' ? '>' : '<'} ?`);
    values.push(integer(seen, 'position'));
  }
  const rows = database.all(
    `SELECT * FROM ${table} WHERE ${conditions.join(' AND ')} ORDER BY ${order} ${page.order} LIMIT ?`,
    ...values,
    page.limit + 1,
  );
  return { items: rows.slice(0, page.limit).map(read), hasMore: rows.length > page.limit };
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== 'string') throw damagedRecord(`its ${column}, a text`, value);
  return value;
}

export function integer(row: Row, column: string): number {
  const value = row[column];
  if (typeof value !== 'number') throw damagedRecord(`its ${column}, a number`, value);
  return value;
}

/** A number of bytes. */
export function size(row: Row, column: string): number {
  const value = integer(row, column);
  if (!Number.isSafeInteger(value) || value < 0)
    throw damagedRecord(`its ${column}, a number of bytes`, value);
  return value;
}

export const textOrNull = (row: Row, column: string) => (row[column] === null ? null : text(row, column));
