import type { SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { DatabaseSync } from '../../platform/sqlite.ts';
import { ServiceError, unknownCursor } from '../errors.ts';
import { createPrivately } from './durable-files.ts';
import { prepareSchema, storeSchema } from './schema.ts';
import type { PageRequest, StoredPage } from './store.ts';

export type Row = Record<string, SQLOutputValue>;

/** A SQLite file with the current schema, cached prepared statements, and an exclusive lock. */
export class SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string) {
    createPrivately(path);
    this.#database = new DatabaseSync(path);
    try {
      // Exclusive: two services on one data folder would run every job twice. The lock ends with the
      // process.
      this.#database.exec(`
        PRAGMA locking_mode = EXCLUSIVE;
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA foreign_keys = ON;
      `);
      prepareSchema(this.#database, storeSchema);
      // In exclusive mode the first write takes the lock, so a second service fails here at its start.
      this.checkWrite();
    } catch (cause) {
      this.#database.close();
      if (cause instanceof Error && /locked|busy/i.test(cause.message))
        throw new ServiceError(
          500,
          'data_folder_in_use',
          `${path} is in use by another service; stop that one or choose another data folder.`,
          { cause },
        );
      throw cause;
    }
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
    if (this.#database.isOpen) this.#database.close();
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
  if (typeof value !== 'string') throw new TypeError(`column ${column} holds ${typeof value}, not text`);
  return value;
}

export function integer(row: Row, column: string): number {
  const value = row[column];
  if (typeof value !== 'number') throw new TypeError(`column ${column} holds ${typeof value}, not a number`);
  return value;
}

export const textOrNull = (row: Row, column: string) => (row[column] === null ? null : text(row, column));
