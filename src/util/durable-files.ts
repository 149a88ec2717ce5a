import { randomUUID } from 'node:crypto';
import { access, mkdir, open, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { hasCode, isSystemError } from './error.ts';
import { RunError } from './run-error.ts';

/** Modes of files and folders: only for the user who runs martingale, whatever the umask is. */
export const privateFile = 0o600;
export const privateFolder = 0o700;

/**
 * Creates a folder and its missing parents, one at a time. Node's `recursive` option never returns for a path in a file
 * system that creates no folders, such as /proc, and reports a read-only one as ENOENT.
 */
export async function makeFolder(path: string): Promise<void> {
  const folder = resolve(path);
  const parent = dirname(folder);
  const hasParent = await access(parent).then(
    () => true,
    () => false,
  );
  if (!hasParent) await makeFolder(parent);
  try {
    await mkdir(folder, { mode: privateFolder });
  } catch (error) {
    if (!hasCode(error, 'EEXIST') || !(await stat(folder)).isDirectory()) throw error;
  }
}

/** Writes a file that appears complete or not at all, even after a power cut. Its folder must exist. */
export async function writeAtomically(
  path: string,
  pieces: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  partial = `${path}.partial`,
): Promise<void> {
  {
    await using file = await open(partial, 'w', privateFile);
    for await (const piece of pieces) await file.appendFile(piece);
    await file.sync();
  }
  await rename(partial, path);
  await syncFolder(dirname(path));
}

/** Writes a new file and makes it durable; one that fails on the way stays as far as it came. */
export async function writeDurably(
  path: string,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  await using file = await open(path, 'wx', privateFile);
  for await (const piece of pieces) await file.appendFile(piece);
  await file.sync();
}

/**
 * Writes a folder that appears by one rename: completely or not at all. `fill` writes its files, and makes each durable,
 * in the folder it is given. If it throws, no files are left.
 */
export async function writeFolderAtomically(
  path: string,
  fill: (unfinished: string) => Promise<void>,
  unfinished = `${path}.unfinished`,
): Promise<void> {
  await rm(unfinished, { recursive: true, force: true });
  await makeFolder(unfinished);
  try {
    await fill(unfinished);
    await syncFolder(unfinished);
    await rename(unfinished, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
}

/** Whether there is nothing at a path, or only an empty folder. */
export async function isFree(path: string): Promise<boolean> {
  try {
    return (await readdir(path)).length === 0;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return true;
    if (hasCode(error, 'ENOTDIR')) return false;
    throw error;
  }
}

/** As `writeFolderAtomically`, at a path that the user chose: an empty folder there is replaced, and nothing else. */
export const writeNewFolder = (path: string, fill: (unfinished: string) => Promise<void>): Promise<void> =>
  writeFolderAtomically(
    path,
    async (unfinished) => {
      await fill(unfinished);
      await rmdir(path).catch((error: unknown) => {
        if (!hasCode(error, 'ENOENT')) throw error;
      });
    },
    `${path}.${randomUUID()}.unfinished`,
  );

/** Appends a value as one line of JSON, which a power cut may lose: see `DurableAppends`. */
export async function appendLine(path: string, value: object): Promise<void> {
  await using handle = await open(path, 'a', privateFile);
  await handle.appendFile(`${JSON.stringify(value)}\n`);
}

/** Appends lines to a file durably. Lines that arrive while others are being written are written together. */
export class DurableAppends {
  readonly #path: string;
  #last: Promise<void> = Promise.resolve();
  /** Lines for the next write. */
  #waiting: (() => string)[] = [];
  /** Whether a write has made the name of the file durable. */
  #isListed = false;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Resolves when the line is durable. `line`: makes its text, with the line feed, when it is written.
   * @throws RunError (`storage_failed`); after that, for every later line too.
   */
  append(line: () => string): Promise<void> {
    this.#waiting.push(line);
    // The write for the first of them takes all.
    if (this.#waiting.length > 1) return this.#last;
    // No write after a failure: a line behind a partial line could not be read.
    this.#last = this.#last.then(() => {
      const lines = this.#waiting;
      this.#waiting = [];
      return storing(this.#path, () => this.#write(lines));
    });
    this.#last.catch(() => {
      this.#waiting = [];
    });
    return this.#last;
  }

  async #write(lines: Iterable<() => string>): Promise<void> {
    await using handle = await open(this.#path, 'a', privateFile);
    // One at a time, so that the event loop gets a tick between them.
    for (const line of lines) await handle.appendFile(line());
    await handle.sync();
    if (!this.#isListed) await syncFolder(dirname(this.#path));
    this.#isListed = true;
  }
}

/** The text of a file, or undefined if it does not exist. */
export async function readIfExists(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Makes the names of files in a folder durable. Windows has no such call and needs none. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  await using folder = await open(path, 'r');
  await folder.sync();
}

const remedies: Record<string, string> = {
  ENOSPC: 'Free disk space',
  EDQUOT: 'Free disk space',
  EROFS: 'Make its file system writable',
  EACCES: 'Allow this process to write there',
  EPERM: 'Allow this process to write there',
  EMFILE: 'Let this process open more files (`ulimit -n`)',
  ENFILE: 'Let this process open more files (`ulimit -n`)',
};

/** Error for a file of a run or an evaluation that could not be written. Earlier lines of the file are complete. */
export function storageError(path: string, cause: Error): RunError {
  const remedy = ('code' in cause && remedies[String(cause.code)]) || 'Fix the cause';
  const message = `${path} could not be written: ${cause.message}. ${remedy}, then continue: earlier lines are complete.`;
  return new RunError('storage_failed', message, { cause });
}

/** Runs work that writes to `path`. @throws RunError (`storage_failed`) for an error of the operating system. */
export async function storing<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (isSystemError(error)) throw storageError(path, error);
    throw error;
  }
}
