import type { AttentionKind } from '../graphs/decoding-graphs.ts';
import type { Feeds } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { KeyValueBlock } from './prefix-cache.ts';

/** The tokens of one sequence to run through the model: `tokens` from `start` to `end`. */
export interface Chunk {
  tokens: readonly number[];
  start: number;
  end: number;
}

/** A chunk in a run's flat list of tokens, from `offset` on. */
export interface TokenRange extends Chunk {
  offset: number;
}

/** The keys and values of the sequences being sampled, in slots. */
export interface SlotCache {
  /** Number of elements in a block of a prefix cache. */
  readonly blockSize: number;
  /** Most slots that it can provide. */
  readonly mostSlots: number;
  /** Provides `slots` of at least `width` positions, and keeps the first `used` slots, as far as they still fit. */
  reserve(slots: number, width: number, used: number): void;
  /** Gives memory back. No slot may be in use. */
  clear(): void;
  /** Copies the first `length` positions of a slot to another. */
  copySlot(from: number, to: number, length: number): void;
  /** Copies the block that begins at position `start` of a slot into `block`, or from it. */
  copyBlock(slot: number, start: number, block: KeyValueBlock, direction: 'into' | 'from'): void;
}

/** Attention to the tokens of a run and to those before them, whose keys and values are in the cache. */
export interface CachedAttention {
  readonly cache: SlotCache;
  /** Elements that a run needs for each token. */
  readonly elementsPerToken: number;
  /** Begins a run of one range for each slot from `firstSlot`. The run has `tokens`, of which the last may be no range's. */
  begin(firstSlot: number, ranges: readonly TokenRange[], tokens: number): MixLayer;
  /** Gives all memory back. No slot may be in use. */
  release(): void;
}

/**
 * Stores what a layer keeps of the run's tokens, which is in its output `packed`, and returns the inputs with which the
 * next graph goes on. `picked`: the flat tokens that it computes, ascending; null: all.
 */
export type MixLayer = (layer: number, packed: Float32Array, picked: readonly number[] | null) => Feeds;

/** Most bytes of a slot for `flat` attention, so that hundreds of slots fit into the addresses of WebAssembly. */
const mostFlatBytes = 16 * 1024 ** 2;

/** The attention of models of an architecture on the CPU. It decides the bits of their logits, so it is always the same. */
export function attentionKind(architecture: Architecture): AttentionKind {
  const { layers, keyValueHeads, headWidth, contextLength, local, convolutions, attentionScale } =
    architecture;
  const bytes = 2 * layers * keyValueHeads * headWidth * contextLength * Float32Array.BYTES_PER_ELEMENT;
  const isPlain = local === null && convolutions === null && attentionScale === null && headWidth % 4 === 0;
  return isPlain && bytes <= mostFlatBytes ? 'flat' : 'padded';
}

/** The array itself, or a larger one in its place. */
export function atLeast(array: Float32Array<ArrayBuffer>, size: number): Float32Array<ArrayBuffer> {
  return array.length >= size ? array : new Float32Array(Math.max(size, 2 * array.length));
}
