import { createReadStream } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { byteLines } from '../../util/json-lines.ts';
import { pieceBytes } from '../json/byte-source.ts';
import type { ServiceLog } from '../log.ts';
import { copyFolder, privateFolder, syncFolder } from './durable-files.ts';
import { compressInto, IncomingFile, readCompressed } from './incoming-file.ts';
import { appendToLog, cutLogs, type LogEnds } from './log-files.ts';

/**
 * The files of the data folder:
 * `models/<id>/checkpoints/step-N/` weights as the engine wrote them, `models/<id>/logs/<split>.jsonl.gz`
 * logged trajectory groups (a gzip member for each request, so `zcat` reads it), `jobs/<id>.jsonl.gz` payloads of
 * jobs that have not ended, `uploads/<sha256>.jsonl` training data, `incoming/` what requests are bringing. Whatever
 * is acknowledged has been fsynced. All of it is for this user alone; a data folder that was there keeps its mode.
 * What others put there, such as a file manager or a backup, stays, and is told in the log at the start.
 */
export class DataFiles {
  readonly #root: string;
  readonly #log: ServiceLog;
  readonly #inTurn = new InTurn();

  private constructor(root: string, log: ServiceLog) {
    this.#root = root;
    this.#log = log;
  }

  static async open(dataFolder: string, log: ServiceLog = () => {}): Promise<DataFiles> {
    const root = resolve(dataFolder);
    for (const folder of ['models', 'jobs', 'uploads', 'incoming'])
      await mkdir(join(root, folder), { recursive: true, mode: privateFolder });
    return new DataFiles(root, log);
  }

  get databasePath(): string {
    return join(this.#root, 'martingale.sqlite');
  }

  /** Path of a step's checkpoint, relative to the data folder, as it is stored: the data folder may be moved. */
  checkpointFolder(modelId: string, step: number): string {
    return join('models', modelId, 'checkpoints', `step-${step}`);
  }

  absolute(path: string): string {
    return join(this.#root, path);
  }

  /**
   * Works on the files of a model or an upload while nobody else does who asks for it in this way. Its name is the id
   * or the hash.
   */
  alone<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    return this.#inTurn.do(name, work);
  }

  /** Removes a checkpoint folder, whole or half-written, and makes sure that its parents are there, durably. */
  async clearCheckpoint(folder: string): Promise<void> {
    await rm(this.absolute(folder), { recursive: true, force: true });
    const parent = dirname(this.absolute(folder));
    const first = await mkdir(parent, { recursive: true, mode: privateFolder });
    if (first === undefined) return;
    for (let made = parent; made.length >= first.length; made = dirname(made))
      await syncFolder(dirname(made));
  }

  /** Copies a checkpoint. The copy appears whole or not at all, also after a power cut. */
  async copyCheckpoint(from: string, to: string): Promise<void> {
    await this.clearCheckpoint(to);
    const partial = `${this.absolute(to)}.partial`;
    try {
      await copyFolder(this.absolute(from), partial);
      await rename(partial, this.absolute(to));
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
    await syncFolder(dirname(this.absolute(to)));
  }

  async removeCheckpoint(folder: string): Promise<void> {
    await rm(this.absolute(folder), { recursive: true, force: true });
  }

  async removeModel(modelId: string): Promise<void> {
    await rm(this.absolute(join('models', modelId)), { recursive: true, force: true });
  }

  /** Ids of the models that have a folder, each with the checkpoint folders found in it. */
  async modelFolders(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>();
    for (const modelId of await this.#own('models', own.models)) {
      const folder = join('models', modelId, 'checkpoints');
      const steps = await this.#own(folder, own.checkpoints);
      found.set(
        modelId,
        steps.map((step) => join(folder, step)),
      );
    }
    return found;
  }

  /** A file for what a request brings. It is removed at the next start unless it is kept. */
  createIncoming(): Promise<IncomingFile> {
    return IncomingFile.create(join(this.#root, 'incoming'));
  }

  /** Removes what a crash left of requests. */
  async removeIncoming(): Promise<void> {
    for (const name of await this.#own('incoming', own.incoming))
      await rm(join(this.#root, 'incoming', name), { force: true });
  }

  /** The same bytes, as a gzip member, in a file of their own. Nothing is left where they break off. */
  async compress(content: AsyncIterable<Uint8Array>): Promise<IncomingFile> {
    const file = await this.createIncoming();
    try {
      await compressInto(file, content);
      return file;
    } catch (error) {
      await file.discard();
      throw error;
    }
  }

  /** Makes a compressed file the payload of a job. */
  async keepPayload(jobId: string, compressed: IncomingFile): Promise<void> {
    await compressed.keepAs(this.#payloadPath(jobId));
  }

  /** What was compressed. */
  readPayload(jobId: string): AsyncGenerator<Buffer> {
    return readCompressed(this.#payloadPath(jobId));
  }

  async removePayload(jobId: string): Promise<void> {
    await rm(this.#payloadPath(jobId), { force: true });
  }

  /** Removes the payloads beside those of the given jobs. */
  async removePayloadsBut(jobIds: Iterable<string>): Promise<void> {
    const needed = new Set([...jobIds].map((jobId) => this.#payloadPath(jobId)));
    for (const name of await this.#own('jobs', own.jobs)) {
      const path = join(this.#root, 'jobs', name);
      if (!needed.has(path)) await rm(path, { force: true });
    }
  }

  /** Makes a file training data. The same data may come from several clients at once. */
  async keepUpload(sha256: string, content: IncomingFile): Promise<void> {
    await content.keepAs(this.#uploadPath(sha256));
  }

  async removeUpload(sha256: string): Promise<void> {
    await rm(this.#uploadPath(sha256), { force: true });
  }

  /** Removes the uploads beside the given ones. */
  async removeUploadsBut(sha256s: Iterable<string>): Promise<void> {
    const recorded = new Set([...sha256s].map((sha256) => this.#uploadPath(sha256)));
    for (const name of await this.#own('uploads', own.uploads)) {
      const path = join(this.#root, 'uploads', name);
      if (!recorded.has(path)) await rm(path, { force: true });
    }
  }

  /** The lines of an upload that are not blank, with their numbers from 1. */
  async *uploadLines(sha256: string): AsyncGenerator<{ line: string; number: number }> {
    const content = createReadStream(this.#uploadPath(sha256), { highWaterMark: pieceBytes });
    try {
      for await (const { bytes, number } of byteLines(content)) {
        const line = bytes.toString('utf8');
        if (line.trim() !== '') yield { line, number };
      }
    } finally {
      content.destroy();
    }
  }

  /** Puts a gzip member behind the first `end` bytes of a split's log; returns how many bytes that took. */
  appendLog(modelId: string, split: string, end: number, member: IncomingFile): Promise<number> {
    return appendToLog(this.#logFolder(modelId), { split, end }, member);
  }

  /** Cuts off what stands behind the ends of a model's logs, by split, and removes those that have none. */
  async cutLogs(modelId: string, ends: LogEnds): Promise<void> {
    await cutLogs(this.#logFolder(modelId), await this.#own(join('models', modelId, 'logs'), own.logs), ends);
  }

  /** Names of what is the service's own in a folder. The rest is left alone, and told of. */
  async #own(folder: string, kind: (typeof own)[keyof typeof own]): Promise<string[]> {
    const entries = await entriesOf(this.absolute(folder), kind);
    for (const name of entries.foreign)
      this.#log({ level: 'warn', event: 'foreign_file', path: join(folder, name) });
    return entries.own;
  }

  #logFolder(modelId: string): string {
    return this.absolute(join('models', modelId, 'logs'));
  }

  #payloadPath(jobId: string): string {
    return join(this.#root, 'jobs', `${jobId}.jsonl.gz`);
  }

  #uploadPath(sha256: string): string {
    return join(this.#root, 'uploads', `${sha256}.jsonl`);
  }
}

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

/** What the service puts into its folders. Anything else there belongs to somebody else. */
export const own = {
  models: { isFolder: true, name: new RegExp(`^${uuid}$`) },
  checkpoints: { isFolder: true, name: /^step-\d+(\.\w+)?$/ },
  logs: { isFolder: false, name: /\.jsonl\.gz$/ },
  jobs: { isFolder: false, name: new RegExp(`^${uuid}\\.`) },
  uploads: { isFolder: false, name: /^[0-9a-f]{64}\./ },
  incoming: { isFolder: false, name: new RegExp(`^${uuid}$`) },
} as const;

/** Names in a folder, of the service's own and of others. A folder that is not there has none. */
export async function entriesOf(
  folder: string,
  { isFolder, name }: (typeof own)[keyof typeof own],
): Promise<{ own: string[]; foreign: string[] }> {
  const found = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  });
  const isOwn = (entry: (typeof found)[number]) => entry.isDirectory() === isFolder && name.test(entry.name);
  const namesOf = (entries: typeof found) => entries.map((entry) => entry.name);
  return { own: namesOf(found.filter(isOwn)), foreign: namesOf(found.filter((entry) => !isOwn(entry))) };
}

/** Does one thing at a time of those that concern the same: the next begins when the one before has ended. */
export class InTurn {
  readonly #last = new Map<string, Promise<unknown>>();

  async do<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(what);
    const done = before === undefined ? work() : before.then(work, work);
    this.#last.set(what, done);
    try {
      return await done;
    } finally {
      if (this.#last.get(what) === done) this.#last.delete(what);
    }
  }
}
