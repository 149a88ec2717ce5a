import { hash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { pieceBytes } from '../json/byte-source.ts';
import { byteLines } from './byte-lines.ts';
import { copyFolder, syncFolder } from './durable-files.ts';
import { IncomingFile } from './incoming-file.ts';
import { privateFile, privateFolder } from './private-file.ts';

/**
 * The files of the data folder:
 * `models/<id>/checkpoints/step-N/` weights as the engine wrote them, `models/<id>/logs/<split>.jsonl.gz`
 * logged trajectory groups (a gzip member for each request, so `zcat` reads it), `jobs/<id>.jsonl.gz` payloads of
 * jobs that have not ended, `uploads/<sha256>.jsonl` training data, `incoming/` what requests are bringing. Whatever
 * is acknowledged has been fsynced. All of it is for this user alone; a data folder that was there keeps its mode.
 */
export class DataFiles {
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
  }

  static async open(dataFolder: string): Promise<DataFiles> {
    const root = resolve(dataFolder);
    for (const folder of ['models', 'jobs', 'uploads', 'incoming'])
      await mkdir(join(root, folder), { recursive: true, mode: privateFolder });
    return new DataFiles(root);
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
    for (const modelId of await readdir(this.absolute('models'))) {
      const folder = join('models', modelId, 'checkpoints');
      const steps = existsSync(this.absolute(folder)) ? await readdir(this.absolute(folder)) : [];
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
    const folder = join(this.#root, 'incoming');
    for (const name of await readdir(folder)) await rm(join(folder, name), { force: true });
  }

  /** The same bytes, as a gzip member, in a file of their own. Nothing is left where they break off. */
  async compress(content: AsyncIterable<Uint8Array>): Promise<IncomingFile> {
    const file = await this.createIncoming();
    try {
      await pipeline(gathered(content), createGzip({ level: 1 }), async (packed: AsyncIterable<Buffer>) => {
        for await (const piece of packed) await file.append(piece);
      });
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
  async *readPayload(jobId: string): AsyncGenerator<Buffer> {
    const packed = createReadStream(this.#payloadPath(jobId));
    const plain = createGunzip();
    const unpacked = pipeline(packed, plain);
    // It is awaited below; where the reader leaves early nobody does.
    unpacked.catch(() => {});
    try {
      yield* plain;
      await unpacked;
    } finally {
      packed.destroy();
      plain.destroy();
    }
  }

  async removePayload(jobId: string): Promise<void> {
    await rm(this.#payloadPath(jobId), { force: true });
  }

  /** Removes what is in the folder of payloads beside those of the given jobs. */
  async removePayloadsBut(jobIds: Iterable<string>): Promise<void> {
    const needed = new Set([...jobIds].map((jobId) => this.#payloadPath(jobId)));
    for (const name of await readdir(join(this.#root, 'jobs'))) {
      const path = join(this.#root, 'jobs', name);
      if (!needed.has(path)) await rm(path, { force: true });
    }
  }

  /** Makes a file training data. The same data may come from several clients at once. */
  async keepUpload(sha256: string, content: IncomingFile): Promise<void> {
    await content.keepAs(this.#uploadPath(sha256));
  }

  /** Removes what is in the folder of uploads beside the given ones. */
  async removeUploadsBut(sha256s: Iterable<string>): Promise<void> {
    const recorded = new Set([...sha256s].map((sha256) => this.#uploadPath(sha256)));
    for (const name of await readdir(join(this.#root, 'uploads'))) {
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
  async appendLog(modelId: string, split: string, end: number, member: IncomingFile): Promise<number> {
    const path = this.#logPath(modelId, split);
    const folder = dirname(path);
    await mkdir(folder, { recursive: true, mode: privateFolder });
    const file = await open(path, 'a', privateFile);
    try {
      // What a crash left behind the last acknowledged record would make the rest of the file unreadable.
      if ((await file.stat()).size > end) await file.truncate(end);
      for await (const piece of member.pieces({ start: 0, end: member.bytes })) await file.appendFile(piece);
      await file.sync();
    } finally {
      await file.close();
    }
    await syncFolder(folder);
    return member.bytes;
  }

  /** Cuts off what stands behind the ends of a model's logs, by split, and removes those that have none. */
  async cutLogs(modelId: string, ends: ReadonlyMap<string, number>): Promise<void> {
    const endOf = new Map([...ends].map(([split, end]) => [this.#logPath(modelId, split), end]));
    const folder = dirname(this.#logPath(modelId, ''));
    if (!existsSync(folder)) return;
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      const end = endOf.get(path);
      if (end === undefined) await rm(path, { force: true });
      else if ((await stat(path)).size > end) await truncate(path, end);
    }
  }

  #logPath(modelId: string, split: string): string {
    return this.absolute(join('models', modelId, 'logs', `${splitFileName(split)}.jsonl.gz`));
  }

  #payloadPath(jobId: string): string {
    return join(this.#root, 'jobs', `${jobId}.jsonl.gz`);
  }

  #uploadPath(sha256: string): string {
    return join(this.#root, 'uploads', `${sha256}.jsonl`);
  }
}

/** Longest name of a split's file that is the split's own; file systems take 255 bytes. */
const longestFileName = 200;

/** A file name for a split, of its own; one that would be too long is the hash of it. */
function splitFileName(split: string): string {
  const name = encodeURIComponent(split);
  return name.length <= longestFileName ? name : `sha256-${hash('sha256', split)}`;
}

const gatheredBytes = 65_536;

/** The same bytes in pieces that are not too small, and that stay what they are when the next is taken. */
async function* gathered(content: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of content) {
    pieces.push(Buffer.from(piece));
    length += piece.length;
    if (length < gatheredBytes) continue;
    yield Buffer.concat(pieces);
    pieces = [];
    length = 0;
  }
  if (length > 0) yield Buffer.concat(pieces);
}
