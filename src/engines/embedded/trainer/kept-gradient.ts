import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { serialize } from 'node:v8';
import { writeAtomically } from '../../../util/durable-files.ts';
import { openRegularFile } from '../../../util/regular-file.ts';
import type { Probabilities } from './batch-loss.ts';

/** At least this long between two writes, in milliseconds. */
const leastEveryMs = 5000;
/** Writing takes at most this share of a step's time. */
const writeShare = 0.02;
/** Assumed speed of the disk until the first write has measured it. */
const assumedBytesPerMs = 300_000;
/** Hash, number of values, number of probabilities. */
const headerBytes = 48;

/**
 * Keeps in a file what the finished micro-batches of a step have added to its gradient, so that a step of minutes goes on
 * there after its process was killed. With it are the probabilities of their decisions, of which the loss makes its
 * metrics anew. The file is of use only for the same step: of the same weights, data and settings.
 *
 * It saves time and is no record: if it cannot be written or read, the step is computed from its beginning.
 */
export class KeptGradient {
  readonly #path: string;
  readonly #hash: () => Buffer;
  readonly #total: Float32Array;
  readonly #everyMs: number;
  /** Log-probability and entropy of each decision so far, one after the other. */
  readonly #probabilities: number[] = [];
  /** Decisions whose batches an earlier process has finished. */
  readonly #finished: number;
  #at = 0;
  #nextAt: number;

  private constructor(
    path: string,
    hash: () => Buffer,
    { total, everyMs, finished }: { total: Float32Array; everyMs: number; finished: Float64Array },
  ) {
    this.#path = path;
    this.#hash = hash;
    this.#total = total;
    this.#everyMs = everyMs;
    for (const value of finished) this.#probabilities.push(value);
    this.#finished = finished.length / 2;
    this.#nextAt = performance.now() + everyMs;
  }

  /**
   * Takes up what an earlier process has kept of the same step, if anything.
   * @param values What is trained. It must not change until the step ends.
   * @param step All else that the gradient depends on; it must be serializable.
   * @param total The gradient of all batches so far. `open` fills in the gradient of the finished ones.
   */
  static async open(
    path: string,
    {
      step,
      values,
      total,
      everyMs = Math.max(leastEveryMs, total.byteLength / assumedBytesPerMs / writeShare),
    }: { step: unknown; values: Float32Array; total: Float32Array; everyMs?: number | undefined },
  ): Promise<KeptGradient> {
    // Only steps of some length need it.
    let known: Buffer | undefined;
    const hash = () =>
      (known ??= createHash('sha256').update(serialize(step)).update(bytesOf(values)).digest());
    const found = await read(path, hash, total.length).catch(() => null);
    if (found) total.set(found.gradient);
    const finished = found?.probabilities ?? new Float64Array();
    return new KeptGradient(path, hash, { total, everyMs, finished });
  }

  /** The probabilities of the next batch's decisions if it is finished; otherwise it must be computed and added. */
  next(decisions: number): Probabilities | null {
    if (this.#at + decisions > this.#finished) return null;
    const start = this.#at;
    this.#at += decisions;
    const column = (part: 0 | 1) =>
      Float64Array.from(
        { length: decisions },
        (_, index) => this.#probabilities[2 * (start + index) + part] as number,
      );
    return { logprobs: column(0), entropies: column(1) };
  }

  /** Takes a batch that is finished, whose gradient is in the total. */
  async add({ logprobs, entropies }: Probabilities): Promise<void> {
    for (const [index, logprob] of logprobs.entries())
      this.#probabilities.push(logprob, entropies[index] as number);
    const startedAt = performance.now();
    if (startedAt < this.#nextAt) return;
    // Such as for a full disk, which must not stay full because of it.
    await this.#write().catch(() => rm(`${this.#path}.partial`, { force: true }).catch(() => undefined));
    const now = performance.now();
    this.#nextAt = now + Math.max(this.#everyMs, (now - startedAt) / writeShare);
  }

  async #write(): Promise<void> {
    const total = this.#total;
    const header = Buffer.alloc(headerBytes);
    this.#hash().copy(header);
    header.writeDoubleLE(total.length, 32);
    header.writeDoubleLE(this.#probabilities.length, 40);
    await writeAtomically(this.#path, [
      header,
      bytesOf(total),
      bytesOf(Float64Array.from(this.#probabilities)),
    ]);
  }
}

/** Null for another step's. */
async function read(path: string, hash: () => Buffer, values: number) {
  await using file = await openRegularFile(path);
  const header = Buffer.alloc(headerBytes);
  await file.read(header, 0, headerBytes, 0);
  const gradientEnd = headerBytes + 4 * values;
  const end = gradientEnd + 8 * header.readDoubleLE(40);
  const isSame = hash().equals(header.subarray(0, 32)) && header.readDoubleLE(32) === values;
  if (!isSame || (await file.stat()).size !== end) return null;
  const { buffer, byteOffset } = await file.readFile();
  const part = (from: number, to: number) => buffer.slice(byteOffset + from, byteOffset + to);
  return {
    gradient: new Float32Array(part(headerBytes, gradientEnd)),
    probabilities: new Float64Array(part(gradientEnd, end)),
  };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array | Float64Array) =>
  new Uint8Array(buffer, byteOffset, byteLength);
