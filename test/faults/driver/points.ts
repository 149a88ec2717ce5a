import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { type FaultMode, type FaultOrder, type FaultPlan, type FaultPoint, planVariable } from './fault.ts';

// The originals, before they are patched.
const [append, exists, read] = [appendFileSync, existsSync, readFileSync];

const messages: Partial<Record<FaultMode, string>> = {
  ENOSPC: 'no space left on device',
  EIO: 'i/o error',
  EROFS: 'read-only file system',
  EMFILE: 'too many open files',
  EACCES: 'permission denied',
};

/** SQLite's code and message for each fault of the system. */
const sqliteErrors: Partial<Record<FaultMode, [number, string]>> = {
  ENOSPC: [13, 'database or disk is full'],
  EIO: [10, 'disk I/O error'],
  EROFS: [8, 'attempt to write a readonly database'],
  EMFILE: [14, 'unable to open database file'],
  EACCES: [14, 'unable to open database file'],
};

const plan: FaultPlan = JSON.parse(process.env[planVariable] ?? '{"root":""}');
const counts = new Map<string, number>();

/** Replaces ids and numbers in names, which differ between runs. */
const nameOf = (path: string) =>
  path
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '<id>')
    .replace(/[0-9a-f]{64}/g, '<sha>')
    .replace(/(quarantine)\/[^/]+/, '$1/<time>')
    .replace(/\d+/g, 'N');

/** The path's name within the root; undefined for one outside of it. */
export function placeOf(path: unknown): string | undefined {
  const text = path instanceof URL ? path.pathname : String(path);
  const inside = relative(plan.root, text);
  if (plan.root === '' || inside.startsWith('..')) return undefined;
  return nameOf(inside) || '.';
}

const die = () => process.kill(process.pid, 'SIGKILL');

/** The fault for the next step of this name; undefined if there is none. */
function faultAt(name: string): FaultMode | undefined {
  const occurrence = counts.get(name) ?? 0;
  counts.set(name, occurrence + 1);
  if (plan.journal) append(plan.journal, `${JSON.stringify({ name, occurrence } satisfies FaultPoint)}\n`);
  const order = orderNow();
  if (order) return order.name === undefined || order.name === name ? order.mode : undefined;
  if (!plan.mode || (plan.at && (plan.at.name !== name || plan.at.occurrence !== occurrence)))
    return undefined;
  return plan.while === undefined || exists(plan.while) ? plan.mode : undefined;
}

function orderNow(): FaultOrder | undefined {
  if (plan.orders === undefined) return undefined;
  try {
    return JSON.parse(read(plan.orders, 'utf8'));
  } catch {
    return undefined;
  }
}

function failure(mode: FaultMode, name: string): Error {
  const [syscall] = name.split(' ');
  if (syscall === 'commit') {
    const [errcode, message] = sqliteErrors[mode] ?? [1, 'SQL logic error'];
    return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode, errstr: message });
  }
  return Object.assign(new Error(`${mode}: ${messages[mode]}, ${name}`), { code: mode, syscall });
}

export interface Step<Result> {
  name: string;
  work: () => Result;
  /** Does half of the step, if that is possible. */
  half?: () => unknown;
}

/** Does a step, or the fault in its place. */
export function atPoint<Result>({ name, work, half }: Step<Result>): Result {
  const mode = faultAt(name);
  if (mode === undefined) return work();
  if (mode === 'kill-before' || (mode === 'kill-half' && !half)) die();
  if (mode === 'kill-half') {
    const halved = half?.();
    if (halved instanceof Promise) return halved.then(die) as Result;
    die();
  }
  if (mode !== 'kill-after') throw failure(mode, name);
  const result = work();
  if (result instanceof Promise)
    return result.then((value) => {
      die();
      return value;
    }) as Result;
  die();
  return result;
}
