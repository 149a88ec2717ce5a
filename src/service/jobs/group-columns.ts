import { z } from 'zod';
import {
  countDecisions,
  type RewardedTrajectory,
  type SampledSequence,
  type SamplingParameters,
} from '../../learning/index.ts';
import { sumOf } from '../../util/sums.ts';

/** A trajectory whose constraints are named by their hashes. */
type StoredTrajectory = RewardedTrajectory<string>;
type StoredSpan = SampledSequence<string>['spans'][number];

const [lengthBytes, tokenBytes, logprobBytes] = [4, 4, 8];

/** What is not in the columns. */
const headSchema = z.array(
  z.object({
    reward: z.number(),
    sequences: z.array(
      z.object({
        tokens: z.int().nonnegative(),
        spans: z.array(
          z.object({
            start: z.int().nonnegative(),
            length: z.int().nonnegative(),
            sampling: z.custom<SamplingParameters>((value) => typeof value === 'object' && value !== null),
            constraint: z.string().nullable(),
            credit: z.number().nullable().optional(),
            choice: z.int().optional(),
          }),
        ),
      }),
    ),
  }),
);

/**
 * What a group's trajectories train on, as bytes: the length of the head (32 bits), the head as JSON, then the token ids
 * of all sequences as 32-bit integers and the log-probabilities of all spans as 64-bit floats, where NaN is unknown. All
 * numbers are little-endian.
 */
export class GroupColumns {
  readonly #head: z.input<typeof headSchema> = [];
  readonly #tokens: Buffer[] = [];
  readonly #logprobs: Buffer[] = [];
  /** Tokens of all spans, and how many of these are decisions. */
  readonly counts = { sampled: 0, trainable: 0 };

  add({ reward, sequences }: StoredTrajectory): void {
    this.#head.push({
      reward,
      sequences: sequences.map(({ tokens, spans }) => {
        this.#tokens.push(column(tokens, tokenBytes, (bytes, token, at) => bytes.writeInt32LE(token, at)));
        return { tokens: tokens.length, spans: spans.map((span) => this.#addSpan(span)) };
      }),
    });
  }

  #addSpan({ logprobs, ...span }: StoredSpan): Omit<StoredSpan, 'logprobs'> {
    this.counts.sampled += logprobs.length;
    this.counts.trainable += countDecisions({ logprobs });
    this.#logprobs.push(
      column(logprobs, logprobBytes, (bytes, logprob, at) => bytes.writeDoubleLE(logprob ?? Number.NaN, at)),
    );
    return span;
  }

  toBytes(): Buffer[] {
    const head = Buffer.from(JSON.stringify(this.#head));
    const length = Buffer.alloc(lengthBytes);
    length.writeUInt32LE(head.length);
    return [length, head, ...this.#tokens, ...this.#logprobs];
  }
}

function column<Item>(
  items: readonly Item[],
  size: number,
  write: (bytes: Buffer, item: Item, at: number) => void,
): Buffer {
  const bytes = Buffer.allocUnsafe(items.length * size);
  for (let index = 0; index < items.length; index++) write(bytes, items[index] as Item, index * size);
  return bytes;
}

/** The trajectories of `GroupColumns`, one at a time. @throws RangeError, SyntaxError or ZodError for other bytes. */
export function* readColumns(bytes: Buffer): Generator<StoredTrajectory> {
  const headEnd = lengthBytes + bytes.readUInt32LE(0);
  const head = headSchema.parse(JSON.parse(bytes.toString('utf8', lengthBytes, headEnd)));
  const tokens = head.flatMap(({ sequences }) => sequences.map((sequence) => sequence.tokens));
  let token = headEnd;
  let logprob = headEnd + tokenBytes * sumOf(tokens);
  const nextTokens = (count: number): number[] => {
    const list = new Array<number>(count);
    for (let index = 0; index < count; index++, token += tokenBytes) list[index] = bytes.readInt32LE(token);
    return list;
  };
  const nextLogprobs = (count: number): (number | null)[] => {
    const list = new Array<number | null>(count);
    for (let index = 0; index < count; index++, logprob += logprobBytes) {
      const value = bytes.readDoubleLE(logprob);
      list[index] = Number.isNaN(value) ? null : value;
    }
    return list;
  };
  for (const { reward, sequences } of head)
    yield {
      reward,
      sequences: sequences.map((sequence) => ({
        tokens: nextTokens(sequence.tokens),
        spans: sequence.spans.map((span) => ({ ...span, logprobs: nextLogprobs(span.length) })),
      })),
    };
  if (logprob !== bytes.length) throw new RangeError(`${bytes.length - logprob} bytes follow the columns`);
}
