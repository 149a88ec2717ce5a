import { closeSync, existsSync, openSync } from 'node:fs';
import { type FileHandle, mkdir, open, readFile, rename, rm, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { storageError, storing } from '../evaluation/index.ts';
import { DatabaseSync } from '../platform/sqlite.ts';
import { RunError } from '../util/run-error.ts';

/** Writes a file that is whole or absent, and durable when this returns. @throws RunError (`storage_failed`) */
export function writeWhole(path: string, pieces: Iterable<string>): Promise<void> {
  return storing(path, async () => {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const partial = `${path}.partial`;
    {
      await using handle = await open(partial, 'w', 0o600);
      for (const piece of pieces) await handle.appendFile(piece);
      await handle.sync();
    }
    await rename(partial, path);
    await syncFolder(path);
  });
}

/** Appends a line, durable when this returns where `durable` says so. @throws RunError (`storage_failed`) */
export function appendLine(path: string, value: object, { durable }: { durable: boolean }): Promise<void> {
  return storing(path, async () => {
    await using handle: FileHandle = await open(path, 'a', 0o600);
    await handle.appendFile(`${JSON.stringify(value)}\n`);
    if (!durable) return;
    await handle.sync();
    await syncFolder(path);
  });
}

/** Undefined where there is no such file. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * The whole lines of a file of JSON lines, at most `count` of them, none where it is absent. What a killed process
 * left of a last line, and the lines behind `count`, are cut off, so that the next line begins on its own.
 */
export async function takeUpLines(path: string, count = Number.POSITIVE_INFINITY): Promise<string[]> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
  const lines: string[] = [];
  let whole = 0;
  while (lines.length < count) {
    const end = bytes.indexOf(0x0a, whole);
    if (end < 0) break;
    lines.push(bytes.toString('utf8', whole, end));
    whole = end + 1;
  }
  if (whole < bytes.length) await storing(path, () => truncate(path, whole));
  return lines;
}

/** @throws RunError (`storage_failed`) */
export async function removeFile(path: string): Promise<void> {
  await storing(path, () => rm(path, { force: true }));
}

/** A new name is durable once its folder is; Windows has no such call and needs none. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  await using folder = await open(dirname(path), 'r');
  await folder.sync();
}

/** File in a run directory that one process at a time holds. */
export const lockFile = 'run.lock';

/** Holds a run directory until it is released, or the process dies. */
export interface RunLock {
  /** Harmless when repeated. */
  release: () => void;
}

/**
 * Holds a run directory for this process alone.
 * @throws RunError where another run, in this process or another, holds it, and where it cannot be held.
 */
export function lockRun(path: string): RunLock {
  // The operating system holds SQLite's lock for the process: one that is killed leaves none behind, and no id of a
  // dead process can be mistaken for a living one.
  const file = join(path, lockFile);
  const database = openLock(file);
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    if (cause instanceof Error && /locked|busy/i.test(cause.message))
      throw new RunError(
        'run_in_use',
        `Another run works in ${path} at this moment. Wait for its end or stop it, or choose another \`runDirectory\`.`,
        { cause },
      );
    throw notLocked(file, cause);
  }
  return {
    release: () => {
      if (database.isOpen) database.close();
    },
  };
}

function openLock(file: string): DatabaseSync {
  try {
    // SQLite would make it for everybody to read. One that is there is not opened: closing it would end its locks.
    if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600));
    return new DatabaseSync(file);
  } catch (cause) {
    throw notLocked(file, cause);
  }
}

const notLocked = (file: string, cause: unknown) =>
  storageError(file, cause instanceof Error ? cause : new Error(String(cause)));

/** Default place of a run: `runs/<ISO date>-<name>`, with characters that every file system takes. */
export function defaultRunDirectory(name: string, now = new Date()): string {
  const date = now.toISOString().replaceAll(':', '-');
  return join('runs', `${date}-${name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}`);
}

/** What a run has that was killed, or failed, before it had a model. */
const begun = new Set([
  ...['trajectories', 'jobs', 'config.json.partial', 'events.jsonl', 'summary.json'],
  ...[lockFile, `${lockFile}-journal`],
]);

/** Whether a folder with these names in it holds a run. */
export const isRun = (names: readonly string[]) =>
  names.includes('config.json') || names.every((name) => begun.has(name));

/** `step-0000`: names sort as steps do. */
export function stepName(step: number): string {
  return `step-${String(step).padStart(4, '0')}`;
}

export const jobFile = (step: number) => `jobs/${stepName(step)}.json`;
export const warmStartFile = 'jobs/warm-start.json';
export const loggingFile = (name: string) => `logged/${name}.json`;
