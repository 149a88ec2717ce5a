import { randomUUID } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, truncate } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { copyFolder, syncFolder, writeWhole } from './durable-files.ts';

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/**
 * The files of the data folder:
 * `models/<id>/checkpoints/step-N/` weights as the engine wrote them, `models/<id>/logs/<split>.jsonl.gz`
 * logged trajectory groups (a gzip member for each request, so `zcat` reads it), `jobs/<id>.json.gz` payloads of
 * jobs that have not ended, `uploads/<sha256>.jsonl` training data. Whatever is acknowledged has been fsynced.
 */
export class DataFiles {
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
  }

  static async open(dataFolder: string): Promise<DataFiles> {
    const root = resolve(dataFolder);
    for (const folder of ['models', 'jobs', 'uploads']) await mkdir(join(root, folder), { recursive: true });
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
    const first = await mkdir(parent, { recursive: true });
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

  async writePayload(jobId: string, payload: string): Promise<void> {
    await writeWhole(this.#payloadPath(jobId), await compress(payload, { level: 1 }));
  }

  async readPayload(jobId: string): Promise<string> {
    return (await decompress(await readFile(this.#payloadPath(jobId)))).toString('utf8');
  }

  async removePayload(jobId: string): Promise<void> {
    const path = this.#payloadPath(jobId);
    await Promise.all([rm(path, { force: true }), rm(`${path}.partial`, { force: true })]);
  }

  async payloadJobIds(): Promise<string[]> {
    return (await readdir(join(this.#root, 'jobs'))).map((name) => name.replace(/\..*$/, ''));
  }

  async writeUpload(sha256: string, body: string): Promise<void> {
    const path = this.#uploadPath(sha256);
    // Under a name of its own: the same data may come from several clients at once.
    await writeWhole(path, Buffer.from(body, 'utf8'), `${path}.${randomUUID()}.partial`);
  }

  /** Removes what a crash left of uploads that were being written. */
  async removePartialUploads(): Promise<void> {
    const folder = join(this.#root, 'uploads');
    for (const name of await readdir(folder))
      if (name.endsWith('.partial')) await rm(join(folder, name), { force: true });
  }

  /** The lines of an upload that are not blank, with their numbers from 1. */
  async *uploadLines(sha256: string): AsyncGenerator<{ line: string; number: number }> {
    const input = createReadStream(this.#uploadPath(sha256), 'utf8');
    let number = 0;
    try {
      for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
        number++;
        if (line.trim() !== '') yield { line, number };
      }
    } finally {
      // Readline does not close what it reads from when it is left early.
      input.destroy();
    }
  }

  /** Writes JSON lines behind the first `end` bytes of a split's log; returns how many bytes that took. */
  async appendLog(modelId: string, split: string, end: number, lines: string): Promise<number> {
    const folder = this.absolute(join('models', modelId, 'logs'));
    await mkdir(folder, { recursive: true });
    const path = join(folder, `${encodeURIComponent(split)}.jsonl.gz`);
    const block = await compress(lines, { level: 1 });
    const file = await open(path, 'a');
    try {
      // What a crash left behind the last acknowledged record would make the rest of the file unreadable.
      if ((await file.stat()).size > end) await truncate(path, end);
      await file.writeFile(block);
      await file.sync();
    } finally {
      await file.close();
    }
    await syncFolder(folder);
    return block.byteLength;
  }

  #payloadPath(jobId: string): string {
    return join(this.#root, 'jobs', `${jobId}.json.gz`);
  }

  #uploadPath(sha256: string): string {
    return join(this.#root, 'uploads', `${sha256}.jsonl`);
  }
}
