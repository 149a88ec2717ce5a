import { createReadStream } from 'node:fs';
import { mkdir, readdir, realpath, rename, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { makeFolder, privateFolder, syncFolder, writeAtomically } from '../../util/durable-files.ts';
import { hasCode } from '../../util/error.ts';
import { byteLines } from '../../util/json-lines.ts';
import { damagedRecord, ServiceError } from '../errors.ts';
import type { ServiceLog } from '../telemetry.ts';
import { copyFolder } from './durable-files.ts';
import { groupMembers, keepGroup, readAfterMember, removeGroup } from './group-files.ts';
import { IncomingFile, pieceBytes, readCompressed } from './incoming-file.ts';
import { appendToLog, type LogEnds, logsBeyond } from './log-files.ts';
import { checkpointPattern, entriesOf, modelFile, own } from './own-entries.ts';
import { Quarantine } from './quarantine.ts';
import type { GroupRecord, ModelRecord } from './store.ts';

/**
 * The files of the data folder:
 * - `models/<id>/model.json`: the model's record once more, to make records anew if the database is lost
 * - `models/<id>/checkpoints/step-N/`: weights, as the engine wrote them
 * - `models/<id>/logs/<split>.jsonl.gz`: logged trajectory groups, one gzip member per request (`zcat`
 *   reads them)
 * - `models/<id>/groups/group-<sha256>`: groups that were sent by themselves, each as JSON in a gzip member and, after it,
 *   as what it trains on
 * - `jobs/<id>.jsonl.gz`: payloads of unfinished jobs
 * - `scratch/<id>`: what an engine has finished of a job's step
 * - `uploads/<sha256>.jsonl`: training data
 * - `incoming/`: data of requests in progress
 * - `quarantine/`: what no record names
 *
 * Everything acknowledged is fsynced. New files are readable only for the service's user; an existing data
 * folder keeps its mode. Foreign files (of a file manager or a backup) stay and are logged at the start.
 */
export class DataFiles {
  readonly #root: string;
  readonly #log: ServiceLog;
  readonly #mutex = new KeyedMutex();
  readonly quarantine: Quarantine;

  private constructor(root: string, log: ServiceLog) {
    this.#root = root;
    this.#log = log;
    this.quarantine = new Quarantine(root, log);
  }

  static async open(dataFolder: string, log: ServiceLog = () => {}): Promise<DataFiles> {
    const root = resolve(dataFolder);
    for (const folder of ['models', 'jobs', 'scratch', 'uploads', 'incoming'])
      await makeFolder(join(root, folder));
    return new DataFiles(root, log);
  }

  /** A data folder that is there. Nothing is created. @throws ServiceError `data_folder_not_found` */
  static async find(dataFolder: string): Promise<DataFiles> {
    const files = new DataFiles(resolve(dataFolder), () => {});
    const isThere = await stat(files.databasePath).catch(() => null);
    if (isThere) return files;
    throw new ServiceError(
      404,
      'data_folder_not_found',
      `${files.databasePath} does not exist. Check --data.`,
    );
  }

  /** Ids of the models with files in a folder, which need not be there. */
  static async modelsIn(dataFolder: string): Promise<string[]> {
    return (await entriesOf(join(resolve(dataFolder), 'models'), own.models)).own;
  }

  get databasePath(): string {
    return join(this.#root, 'martingale.sqlite');
  }

  /**
   * Path of a checkpoint relative to the data folder. Stored in this form, so that the folder can be
   * moved.
   */
  checkpointFolder(modelId: string, step: number): string {
    return join('models', modelId, 'checkpoints', `step-${step}`);
  }

  absolute(path: string): string {
    return join(this.#root, path);
  }

  /** The absolute path of a checkpoint's folder. @throws ServiceError `data_folder_damaged` for any other path. */
  checkpointPath(folder: string): string {
    if (!checkpointPattern.test(folder)) throw damagedRecord('a checkpoint folder', folder);
    return this.absolute(folder);
  }

  /**
   * Runs `work` on the files of a model or upload, one at a time per `name` (the model's id or the
   * upload's hash).
   */
  exclusively<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    return this.#mutex.run(name, work);
  }

  /** Removes a complete or partial checkpoint folder and durably creates its parents. */
  async clearCheckpoint(folder: string): Promise<void> {
    await this.removeCheckpoint(folder);
    const parent = dirname(this.checkpointPath(folder));
    const first = await mkdir(parent, { recursive: true, mode: privateFolder });
    if (first === undefined) return;
    for (let created = parent; created.length >= first.length; created = dirname(created))
      await syncFolder(dirname(created));
  }

  /** Copies a checkpoint atomically and durably. */
  async copyCheckpoint(from: string, to: string): Promise<void> {
    await this.clearCheckpoint(to);
    const partial = `${this.checkpointPath(to)}.partial`;
    try {
      await copyFolder(this.checkpointPath(from), partial);
      await rename(partial, this.checkpointPath(to));
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
    await syncFolder(dirname(this.absolute(to)));
  }

  async removeCheckpoint(folder: string): Promise<void> {
    const path = this.checkpointPath(folder);
    await this.#checkParent(folder);
    await rm(path, { recursive: true, force: true });
  }

  async removeModel(modelId: string): Promise<void> {
    await rm(this.#modelPath(modelId), { recursive: true, force: true });
  }

  /** Writes the record of a model beside its weights. Durable before the model is. */
  async keepModel(model: ModelRecord): Promise<void> {
    const folder = this.#modelPath(model.id);
    await mkdir(folder, { recursive: true, mode: privateFolder });
    await writeAtomically(join(folder, modelFile), [`${JSON.stringify(model)}\n`]);
    await syncFolder(dirname(folder));
  }

  /** Whether a model has weights or logs, or anything else besides the record that was written before it was made. */
  async hasFiles(modelId: string): Promise<boolean> {
    const entries = await readdir(this.#modelPath(modelId), { recursive: true, withFileTypes: true });
    return entries.some((entry) => !entry.isDirectory() && !entry.name.startsWith(modelFile));
  }

  /** A link in place of a model's folder, its `checkpoints` or its `groups` would lead a removal elsewhere. */
  async #checkParent(folder: string): Promise<void> {
    const models = await realpath(join(this.#root, 'models'));
    const parent = dirname(folder);
    const found = await realpath(join(this.#root, parent)).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return null;
      throw error;
    });
    if (
      found !== null &&
      found !== join(dirname(models), parent) &&
      found !== join(models, parent.slice('models/'.length))
    )
      throw damagedRecord('a folder of a model', parent);
  }

  /** Ids of models with a folder, each with its checkpoint folders. */
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

  /** Creates a file for the data of a request. Unless kept, it is removed at the next start. */
  createIncoming(): Promise<IncomingFile> {
    return IncomingFile.create(join(this.#root, 'incoming'));
  }

  /** Removes files of requests that a crash interrupted. */
  async removeIncoming(): Promise<void> {
    for (const name of await this.#own('incoming', own.incoming))
      await rm(join(this.#root, 'incoming', name), { force: true });
  }

  /** Writes the compressed payload of a job. */
  async keepPayload(jobId: string, compressed: Uint8Array): Promise<void> {
    const file = await this.createIncoming();
    try {
      await file.append(compressed);
      await file.keepAs(this.#payloadPath(jobId));
    } finally {
      await file.discard();
    }
  }

  /** The decompressed payload of a job. */
  readPayload(jobId: string): AsyncGenerator<Buffer> {
    return readCompressed(this.#payloadPath(jobId));
  }

  /** Removes what is kept of a job until it ends. */
  async removePayload(jobId: string): Promise<void> {
    await rm(this.#payloadPath(jobId), { force: true });
    await this.removeScratch(jobId);
  }

  /** Where an engine may keep what it has finished of a job. */
  scratchFile(jobId: string): string {
    if (!own.incoming.name.test(jobId)) throw damagedRecord('the id of a job', jobId);
    return join(this.#root, 'scratch', jobId);
  }

  async removeScratch(jobId: string): Promise<void> {
    for (const end of ['', '.partial']) await rm(this.scratchFile(jobId) + end, { force: true });
  }

  /** The jobs that have such files. */
  async jobsWithScratch(): Promise<string[]> {
    return (await this.#own('scratch', own.scratch)).map((name) => name.replace('.partial', ''));
  }

  /** The payloads that are there: the id of the job, and the path in the data folder. */
  async payloads(): Promise<{ jobId: string; path: string }[]> {
    const names = await this.#own('jobs', own.jobs);
    return names.map((name) => ({ jobId: name.slice(0, name.indexOf('.')), path: join('jobs', name) }));
  }

  /** Turns a file into training data. Several clients may send the same data at once. */
  async keepUpload(sha256: string, content: IncomingFile): Promise<void> {
    await content.keepAs(this.#uploadPath(sha256));
  }

  async removeUpload(sha256: string): Promise<void> {
    await rm(this.#uploadPath(sha256), { force: true });
  }

  /** Moves all uploads except these to the quarantine. */
  async quarantineOtherUploads(sha256s: Iterable<string>): Promise<void> {
    const recorded = new Set([...sha256s].map((sha256) => this.#uploadPath(sha256)));
    for (const name of await this.#own('uploads', own.uploads))
      if (!recorded.has(join(this.#root, 'uploads', name))) await this.quarantine.take(join('uploads', name));
  }

  /** The non-blank lines of an upload, numbered from 1. */
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

  /** Writes gzip members after the first `end` bytes of a split's log and returns their size in bytes. */
  appendLog(
    modelId: string,
    split: string,
    end: number,
    members: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<number> {
    return appendToLog(this.#logFolder(modelId), { split, end }, members);
  }

  /** Makes a file the file of a group. */
  keepGroup({ modelId, id }: Pick<GroupRecord, 'modelId' | 'id'>, file: IncomingFile): Promise<void> {
    return keepGroup(this.#groupFolder(modelId), id, file);
  }

  async removeGroup({ modelId, id }: Pick<GroupRecord, 'modelId' | 'id'>): Promise<void> {
    await this.#checkParent(join('models', modelId, 'groups', id));
    await removeGroup(this.#groupFolder(modelId), id);
  }

  /** Groups of a model as JSON, in gzip members. Each piece is valid only until the next one is read. */
  groupMembers(modelId: string, groups: readonly GroupRecord[]): AsyncGenerator<Buffer> {
    return groupMembers(this.#groupFolder(modelId), groups);
  }

  /** What a group trains on. */
  groupColumns(group: GroupRecord): Promise<Buffer> {
    return readAfterMember(this.#groupFolder(group.modelId), group);
  }

  /** Moves all groups of a model except these to the quarantine. */
  async quarantineOtherGroups(modelId: string, ids: readonly string[]): Promise<void> {
    const recorded = new Set(ids);
    const folder = join('models', modelId, 'groups');
    for (const name of await this.#own(folder, own.groups))
      if (!recorded.has(name)) await this.quarantine.take(join(folder, name));
  }

  /** Cuts a model's logs to these ends, by split. What is cut off goes to the quarantine. */
  async cutLogs(modelId: string, ends: LogEnds): Promise<void> {
    const folder = join('models', modelId, 'logs');
    for (const { name, end } of await logsBeyond(
      this.absolute(folder),
      await this.#own(folder, own.logs),
      ends,
    )) {
      const path = join(folder, name);
      if (end === 0) await this.quarantine.take(path);
      else {
        await this.quarantine.takeEnd(path, end);
        await truncate(this.absolute(path), end);
      }
    }
  }

  /** Names of the service's own entries in a folder. Other entries are logged and left alone. */
  async #own(folder: string, kind: (typeof own)[keyof typeof own]): Promise<string[]> {
    const entries = await entriesOf(this.absolute(folder), kind);
    for (const name of entries.foreign)
      this.#log({ level: 'warn', event: 'unknown_file', path: join(folder, name) });
    return entries.own;
  }

  #modelPath(modelId: string): string {
    if (!own.models.name.test(modelId)) throw damagedRecord('the id of a model', modelId);
    return join(this.#root, 'models', modelId);
  }

  #logFolder(modelId: string): string {
    return join(this.#modelPath(modelId), 'logs');
  }

  #groupFolder(modelId: string): string {
    return join(this.#modelPath(modelId), 'groups');
  }

  #payloadPath(jobId: string): string {
    if (!own.incoming.name.test(jobId)) throw damagedRecord('the id of a job', jobId);
    return join(this.#root, 'jobs', `${jobId}.jsonl.gz`);
  }

  #uploadPath(sha256: string): string {
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw damagedRecord('the hash of an upload', sha256);
    return join(this.#root, 'uploads', `${sha256}.jsonl`);
  }
}

/** Runs work one at a time per key. */
class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
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
