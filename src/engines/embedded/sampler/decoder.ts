import type { LogitRows } from '../sampling/distribution.ts';
import type { Draw, Drawn } from './draws.ts';
import type { KeyValueBlock } from './prefix-cache.ts';

/** The tokens of one sequence to run through the model: `tokens` from `start` to `end`. */
export interface Chunk {
  tokens: readonly number[];
  start: number;
  end: number;
}

/** What is needed after a chunk's last token: a token that the model chooses, its logits, or nothing. */
export type Wanted = Draw | 'logits' | null;

export interface StepOutput {
  rows: LogitRows;
  /** For each chunk the token that was chosen, the index of its row of logits, or null. */
  outcomes: (Drawn | number | null)[];
}

/** The outcomes of chunks whose logits are all there: the row of each chunk, null of an empty one. */
export function rowsOf(chunks: readonly Chunk[]): (number | null)[] {
  let row = 0;
  return chunks.map(({ start, end }) => (start < end ? row++ : null));
}

/** Runs tokens through one set of weights, with its own key-value cache. */
export interface Decoder {
  readonly cache: SlotCache;
  /**
   * Runs one chunk for each slot from `firstSlot`; the cache must be large enough. Returns a row of logits after the last
   * token of each chunk that is not empty, or with `everyToken` after every token. There may be further rows. The next run
   * frees the rows.
   */
  run(firstSlot: number, chunks: readonly Chunk[], options?: { everyToken?: boolean }): Promise<LogitRows>;
  /** Runs chunks as `run` does, and returns only what is wanted. A model that chooses no tokens gives all logits. */
  step(firstSlot: number, chunks: readonly Chunk[], wanted: readonly Wanted[]): Promise<StepOutput>;
  /** A decoder of these weights with its own cache. Closing either closes both. They must not run at once. */
  twin(): Decoder;
  /** Elements that a run needs for each token: bounds how many tokens run at once. */
  readonly elementsPerToken: number;
  close(): Promise<void>;
}

/** The keys and values of the sequences being sampled, in slots. */
export interface SlotCache {
  /** Number of elements in a block of a prefix cache. */
  readonly blockSize: number;
  /** Most slots that it can provide. */
  readonly mostSlots: number;
  /** Number of positions in each slot. */
  readonly width: number;
  /** Provides `slots` of at least `width` positions, and keeps the first `used` slots, as far as they still fit. */
  reserve(slots: number, width: number, used: number): void;
  /** Gives memory back. No slot may be in use. */
  clear(): void;
  /** Copies the first `length` positions of a slot to another. */
  copySlot(from: number, to: number, length: number): void;
  /** Copies the block that begins at position `start` of a slot into `block`, or from it. */
  copyBlock(slot: number, start: number, block: KeyValueBlock, direction: 'into' | 'from'): void;
}
