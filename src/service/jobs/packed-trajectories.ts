import type { ParsedTrajectory } from '../../contract/index.ts';
import { byteLines } from '../../util/json-lines.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { RequestValidationError } from '../errors.ts';
import { MemorySource } from '../json/byte-source.ts';
import { parseInSlices } from '../json/parse.ts';
import { readTrajectory } from './read-trajectory.ts';

/** Largest text in bytes of the payloads that are kept in memory. Their objects take about four times as much. */
const maxBytes = 8 * 1024 ** 2;

/** The trajectories of a payload in memory: group by group, each followed by null. */
export class PackedTrajectories {
  #parts: (ParsedTrajectory | null)[] = [];
  #bytes = 0;

  /** Length of the text. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Null if the payload is too large to be kept. */
  get parts(): readonly (ParsedTrajectory | null)[] | null {
    return this.#bytes <= maxBytes ? this.#parts : null;
  }

  add(part: ParsedTrajectory | null): void {
    if (this.#bytes <= maxBytes) this.#parts.push(part);
  }

  /** Counts text of the last trajectory. */
  weigh(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > maxBytes) this.#parts = [];
  }
}

/**
 * The payloads of the newest jobs, so that a job that starts soon need not read its file. The file stays: it is what a
 * job is trained on that starts late, again, or after a restart.
 */
export class RecentPayloads {
  /** By the job's id; the oldest first. */
  readonly #kept = new Map<string, PackedTrajectories>();
  #bytes = 0;

  keep(jobId: string, packed: PackedTrajectories): void {
    if (packed.parts === null) return;
    this.#kept.set(jobId, packed);
    this.#bytes += packed.bytes;
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= maxBytes) return;
      this.forget(oldest);
    }
  }

  /** The trajectories of a job, once; null if they are only in its file. */
  take(jobId: string): readonly (ParsedTrajectory | null)[] | null {
    const parts = this.#kept.get(jobId)?.parts ?? null;
    this.forget(jobId);
    return parts;
  }

  forget(jobId: string): void {
    this.#bytes -= this.#kept.get(jobId)?.bytes ?? 0;
    this.#kept.delete(jobId);
  }
}

/** Reads a payload: the trajectories that `packGroups` packed, in order, and null at the end of each group. */
export async function* readPacked(
  payload: AsyncIterable<Uint8Array>,
): AsyncGenerator<ParsedTrajectory | null> {
  const slices = new TimeSlices();
  for await (const { bytes, number } of byteLines(payload)) {
    if (bytes.length === 0) {
      yield null;
      continue;
    }
    const range = { start: 0, end: bytes.length };
    const value = await parseInSlices(new MemorySource(bytes), range, { slices });
    const result = await readTrajectory(value, [`line ${number}`], { bytes: bytes.length, slices });
    if ('issues' in result) throw new RequestValidationError(result.issues);
    yield result.value;
  }
}
