import { RequestValidationError } from '../errors.ts';
import type { SqliteDatabase } from './sqlite-database.ts';
import { integer, type Row } from './sqlite-rows.ts';
import type { PageRequest, StoredPage } from './store.ts';

/** A list that is read in pages: the rows of a table, or those of one tenant, by a column that never repeats. */
export interface PagedList {
  table: 'models' | 'checkpoints' | 'events';
  order: 'sequence' | 'step';
  tenant?: { column: 'entity' | 'model_id' | 'job_id'; id: string } | undefined;
}

/** Reads the page after the item with id `after`. An `after` that names no item of the list is a 422. */
export function readPage<Item>(
  database: SqliteDatabase,
  read: (row: Row) => Item,
  { table, order, tenant }: PagedList,
  page: PageRequest,
): StoredPage<Item> {
  const conditions = tenant ? [`${tenant.column} = ?`] : ['1'];
  const values: (string | number)[] = tenant ? [tenant.id] : [];
  if (page.after !== undefined && page.after !== '') {
    const seen = database.one(
      `SELECT ${order} AS position FROM ${table} WHERE ${conditions.join(' AND ')} AND id = ?`,
      ...[...values, page.after],
    );
    if (!seen) throw unknownCursor(page.after);
    conditions.push(`${order} ${page.order === 'asc' ? '>' : '<'} ?`);
    values.push(integer(seen, 'position'));
  }
  const rows = database.all(
    `SELECT * FROM ${table} WHERE ${conditions.join(' AND ')} ORDER BY ${order} ${page.order} LIMIT ?`,
    ...[...values, page.limit + 1],
  );
  return { items: rows.slice(0, page.limit).map(read), hasMore: rows.length > page.limit };
}

function unknownCursor(after: string): RequestValidationError {
  return new RequestValidationError([
    {
      loc: ['query', 'after'],
      msg: 'after names no item of this list (it may have been deleted); begin again without it',
      type: 'value_error',
      input: after,
    },
  ]);
}
