import { type ParsedTrajectory, trajectorySchema } from '../../contract/index.ts';
import { byteLines } from '../../util/json-lines.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { RequestValidationError } from '../errors.ts';
import { readText, type TextKind } from '../json/read-text.ts';
import { readItem } from '../validation.ts';

/** Largest text in bytes of the payloads that are kept in memory. Their objects take about four times as much. */
const maxBytes = 8 * 1024 ** 2;

/** The trajectories of a payload in memory: group by group, each followed by null. */
type Parts = readonly (ParsedTrajectory | null)[];

/**
 * The payloads of the newest jobs with small bodies, so that a job that starts soon need not read its file. The file
 * stays: it is what a job is trained on that starts late, again, or after a restart.
 */
export class RecentPayloads {
  /** By the job's id; the oldest first. `bytes`: length of the text. */
  readonly #kept = new Map<string, { parts: Parts; bytes: number }>();
  #bytes = 0;

  keep(jobId: string, parts: Parts, bytes: number): void {
    this.#kept.set(jobId, { parts, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= maxBytes) return;
      this.forget(oldest);
    }
  }

  /** The trajectories of a job, once; null if they are only in its file. */
  take(jobId: string): Parts | null {
    const parts = this.#kept.get(jobId)?.parts ?? null;
    this.forget(jobId);
    return parts;
  }

  forget(jobId: string): void {
    this.#bytes -= this.#kept.get(jobId)?.bytes ?? 0;
    this.#kept.delete(jobId);
  }
}

/** A line of a payload. */
export const trajectoryText: TextKind<ParsedTrajectory> = {
  name: 'trajectory',
  maxValues: Number.POSITIVE_INFINITY,
  validate(value) {
    const result = readItem(trajectorySchema, value, ['body']);
    if ('issues' in result) throw new RequestValidationError(result.issues);
    return result.value;
  },
};

/** Reads a payload: the trajectories that `packBody` packed, in order, and null at the end of each group. */
export async function* readPacked(
  payload: AsyncIterable<Uint8Array>,
): AsyncGenerator<ParsedTrajectory | null> {
  const slices = new TimeSlices();
  for await (const { bytes } of byteLines(payload))
    yield bytes.length === 0 ? null : await readText(trajectoryText, bytes, { slices });
}
