// Loaded with --import before a program: names each of its durable steps, and injects the planned faults.
import fs from 'node:fs';
import fsp, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { DatabaseSync } from 'node:sqlite';
import { atPoint, placeOf } from './points.ts';

type Anything = (this: unknown, ...given: unknown[]) => unknown;

const paths = new WeakMap<object, string>();

/** Wraps a method. */
function patch(target: object, method: string, wrap: (original: Anything) => Anything): void {
  const original: unknown = Reflect.get(target, method);
  if (typeof original === 'function') Reflect.set(target, method, wrap(original as Anything));
}

const toBytes = (data: unknown) =>
  typeof data === 'string' ? Buffer.from(data) : ArrayBuffer.isView(data) ? data : undefined;

const halfOf = (data: unknown) => {
  const bytes = toBytes(data);
  return bytes && Buffer.from(bytes.buffer, bytes.byteOffset, Math.floor(bytes.byteLength / 2));
};

const isAsync = (target: object) => target === fsp;

/** Turns errors into rejected promises, as asynchronous functions do. */
const asAsync = (target: object, work: () => unknown) => {
  if (!isAsync(target)) return work();
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
};

const opensToWrite = (flags: unknown) =>
  typeof flags === 'number' ? (flags & 3) !== 0 : typeof flags === 'string' && /[wa+]/.test(flags);

for (const [target, suffix] of [
  [fsp, ''],
  [fs, 'Sync'],
] as const) {
  for (const method of [
    'rename',
    'copyFile',
    'rm',
    'unlink',
    'mkdir',
    'truncate',
    'rmdir',
    'symlink',
    'link',
  ])
    patch(
      target,
      `${method}${suffix}`,
      (original) =>
        function (...given) {
          const place = placeOf(given[method === 'rename' || method === 'copyFile' ? 1 : 0]);
          const work = () => Reflect.apply(original, this, given);
          if (place === undefined) return work();
          return asAsync(target, () => atPoint({ name: `${method} ${place}`, work }));
        },
    );
  for (const method of ['writeFile', 'appendFile'])
    patch(
      target,
      `${method}${suffix}`,
      (original) =>
        function (...given) {
          const place =
            given[0] instanceof Object && !(given[0] instanceof URL) ? undefined : placeOf(given[0]);
          const work = () => Reflect.apply(original, this, given);
          if (place === undefined) return work();
          const part = halfOf(given[1]);
          const half = part && (() => Reflect.apply(original, this, [given[0], part, given[2]]));
          return asAsync(target, () => atPoint({ name: `${method} ${place}`, work, ...(half && { half }) }));
        },
    );
}

patch(
  fsp,
  'open',
  (original) =>
    function (...given) {
      const place = placeOf(given[0]);
      const work = async () => {
        const handle = (await Reflect.apply(original, this, given)) as FileHandle;
        if (place !== undefined) paths.set(handle, place);
        return handle;
      };
      if (place === undefined || !opensToWrite(given[1] ?? 'r')) return work();
      return asAsync(fsp, () => atPoint({ name: `open ${place}`, work }));
    },
);

{
  const handle = await fsp.open(process.execPath, 'r');
  const prototype: object = Object.getPrototypeOf(handle);
  await handle.close();
  const write: Anything = Reflect.get(prototype, 'write');
  for (const method of ['write', 'writev', 'writeFile', 'appendFile', 'sync', 'datasync', 'truncate'])
    patch(
      prototype,
      method,
      (original) =>
        function (...given) {
          const place = paths.get(Object(this));
          const work = () => Reflect.apply(original, this, given);
          if (place === undefined) return work();
          const part = halfOf(given[0]);
          const half = part && (() => Reflect.apply(write, this, [part]));
          return asAsync(fsp, () => atPoint({ name: `${method} ${place}`, work, ...(half && { half }) }));
        },
    );
}

// Streams write through these.
const descriptors = new Map<number, string>();
type Callback = (error: unknown, ...results: unknown[]) => void;
const lastOf = (given: unknown[]) => given.at(-1) as Callback;
patch(
  fs,
  'open',
  (original) =>
    function (...given) {
      const place = placeOf(given[0]);
      if (place === undefined || !opensToWrite(given[1])) return Reflect.apply(original, this, given);
      const done = lastOf(given);
      const opened: Callback = (error, descriptor) => {
        if (typeof descriptor === 'number') descriptors.set(descriptor, place);
        done(error, descriptor);
      };
      try {
        return atPoint({
          name: `open ${place}`,
          work: () => Reflect.apply(original, this, [...given.slice(0, -1), opened]),
        });
      } catch (error) {
        return done(error);
      }
    },
);
patch(
  fs,
  'close',
  (original) =>
    function (...given) {
      descriptors.delete(Number(given[0]));
      return Reflect.apply(original, this, given);
    },
);
for (const method of ['write', 'writev', 'fsync'])
  patch(
    fs,
    method,
    (original) =>
      function (...given) {
        const place = descriptors.get(Number(given[0]));
        const work = () => Reflect.apply(original, this, given);
        if (place === undefined) return work();
        const part = halfOf(given[1]);
        const half = part && (() => fs.writeSync(Number(given[0]), part));
        try {
          return atPoint({ name: `${method} ${place}`, work, ...(half && { half }) });
        } catch (error) {
          return lastOf(given)(error);
        }
      },
  );

/** Statements of the open transaction. There is at most one, because transactions are synchronous. */
let transaction: string[] | undefined;
const verbs = /^\s*(INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM|REPLACE INTO)\s+(\w+)/i;
const changes = (sql: string) => {
  const [, verb, table] = verbs.exec(sql) ?? [];
  return verb && table && `${verb.split(' ')[0]?.toLowerCase()} ${table}`;
};

{
  const database = new DatabaseSync(':memory:');
  const statement: object = Object.getPrototypeOf(database.prepare('SELECT 1'));
  database.close();
  for (const method of ['run', 'all', 'get'])
    patch(
      statement,
      method,
      (original) =>
        function (...given) {
          const work = () => Reflect.apply(original, this, given);
          const change = changes(String(Reflect.get(Object(this), 'sourceSQL')));
          if (!change) return work();
          if (transaction) {
            transaction.push(change);
            return work();
          }
          return atPoint({ name: `commit ${change}`, work });
        },
    );
  patch(
    DatabaseSync.prototype,
    'exec',
    (original) =>
      function (...given) {
        const sql = String(given[0]).trim();
        const work = () => Reflect.apply(original, this, given);
        if (/^BEGIN/i.test(sql)) transaction = [];
        if (/^ROLLBACK/i.test(sql)) transaction = undefined;
        if (!/^COMMIT/i.test(sql) || !transaction) return work();
        const name = `commit ${[...new Set(transaction)].join(', ') || 'schema'}`;
        const result = atPoint({ name, work });
        transaction = undefined;
        return result;
      },
  );
}

syncBuiltinESMExports();
