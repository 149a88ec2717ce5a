import type { TrajectoryTokens } from '../../contract/index.ts';
import type { TrainedTokens } from '../../engines/engine.ts';
import type { StoredPage } from '../store/store.ts';

/** The sampled tokens of one datum: the choice and the number of tokens of each span. */
export interface TrainedDatum {
  group: number;
  /** Index in the group. */
  trajectory: number;
  spans: { choice: number; length: number }[];
}

/** What a job found of its tokens: all spans of all datums, in order. */
export interface JobTokens {
  datums: readonly TrainedDatum[];
  tokens: TrainedTokens;
}

/** Bytes of the tokens that are kept: about 13 million tokens. */
const maxBytes = 64 * 1024 ** 2;

/** The tokens of the newest jobs, in memory. Older jobs, and jobs before a restart, are not known. */
export class RecentTokens {
  /** By the job's id; the oldest first. */
  readonly #kept = new Map<string, JobTokens>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(bytes = maxBytes) {
    this.#maxBytes = bytes;
  }

  keep(jobId: string, tokens: JobTokens): void {
    this.forget(jobId);
    this.#kept.set(jobId, tokens);
    this.#bytes += sizeOf(tokens);
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.forget(oldest);
    }
  }

  of(jobId: string): JobTokens | undefined {
    return this.#kept.get(jobId);
  }

  forget(jobId: string): void {
    const kept = this.#kept.get(jobId);
    if (!kept) return;
    this.#bytes -= sizeOf(kept);
    this.#kept.delete(jobId);
  }
}

const sizeOf = ({ tokens }: JobTokens): number => tokens.logprobs.byteLength + tokens.clipped.byteLength;

/** A page of a job's trajectories, whose ids are their numbers; undefined if `after` is none of them. */
export function tokenPage(
  { datums, tokens }: JobTokens,
  { after, limit }: { after?: string | undefined; limit: number },
): StoredPage<TrajectoryTokens> | undefined {
  const items: TrajectoryTokens[] = [];
  let [number, start] = [-1, 0];
  let isAfter = after === undefined || after === '';
  let last: TrainedDatum | undefined;
  for (const datum of datums) {
    const isSame = last?.group === datum.group && last.trajectory === datum.trajectory;
    if (!isSame) {
      if (String(number) === after) isAfter = true;
      if (items.length === limit) return { items, hasMore: true };
      number++;
      const { group, trajectory } = datum;
      if (isAfter) items.push({ id: String(number), group, trajectory, choices: [] });
    }
    last = datum;
    for (const { choice, length } of datum.spans) {
      const end = start + length;
      if (isAfter)
        items.at(-1)?.choices.push({
          choice,
          logprobs: Array.from(tokens.logprobs.subarray(start, end), rounded),
          clipped: indices(tokens.clipped.subarray(start, end)),
        });
      start = end;
    }
  }
  if (String(number) === after) isAfter = true;
  return isAfter ? { items, hasMore: false } : undefined;
}

/** The digits that float32 has; null for a token that did not train. */
const rounded = (logprob: number): number | null =>
  Number.isNaN(logprob) ? null : Number(logprob.toPrecision(7));

const indices = (flags: Uint8Array): number[] =>
  Array.from(flags.entries()).flatMap(([at, flag]) => (flag ? [at] : []));
