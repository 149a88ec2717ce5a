import type { SlotCache } from './cached-attention.ts';
import { blockLength, type PrefixCache } from './prefix-cache.ts';
import type { Continuation, SampledAnswer, Sequence } from './sequence.ts';

/** A sequence that has a slot, and its answer: the sequence itself, or the search whose beam it is. */
export interface Occupant {
  sequence: Sequence;
  answer: SampledAnswer;
  salt: string | null;
  tenant: string;
  /** Identifies the prompt and the salt. Occupants with the same value may share the prompt's keys and values. */
  prompt: string;
}

/** Assigns the slots of the key-value cache: slot i belongs to the i-th occupant. */
export class Slots {
  readonly #cache: SlotCache;
  readonly #prefixes: PrefixCache;
  readonly #occupants: Occupant[] = [];

  constructor(cache: SlotCache, prefixes: PrefixCache) {
    this.#cache = cache;
    this.#prefixes = prefixes;
  }

  get occupants(): readonly Occupant[] {
    return this.#occupants;
  }

  get count(): number {
    return this.#occupants.length;
  }

  at(slot: number): Occupant {
    return this.#occupants[slot] as Occupant;
  }

  /** Adds a slot at the end. It can be used only after the next `reserve`. */
  append(occupant: Occupant): number {
    return this.#occupants.push(occupant) - 1;
  }

  /** Reserves space for every token that must be computed, and keeps the contents of the first `used` slots. */
  reserve(used: number): void {
    const longest = this.#occupants.reduce(
      (length, { sequence }) => Math.max(length, sequence.tokens.length),
      1,
    );
    this.#cache.reserve(this.#occupants.length, longest, used);
  }

  /** Copies the cached prefix of a new prompt into its slot. The last token is always computed, for its logits. */
  loadPrefix(slot: number): void {
    const { sequence, salt } = this.at(slot);
    const blocks = this.#prefixes.find(sequence.tokens.slice(0, sequence.promptLength), salt);
    for (const [index, block] of blocks.entries())
      this.#cache.copyBlock(slot, index * blockLength, block, 'from');
    const length = Math.min(blocks.length * blockLength, sequence.promptLength - 1);
    sequence.computed = length;
    sequence.cachedTokens = length;
  }

  /** Copies the keys and values of the same prompt from the leader's slot. */
  copyPrompt(slot: number, leader: Occupant): void {
    const { sequence } = this.at(slot);
    const length = Math.min(sequence.promptLength - 1, leader.sequence.computed);
    this.#cache.copySlot(this.#occupants.indexOf(leader), slot, length);
    sequence.computed = length;
    sequence.cachedTokens = length;
  }

  storePrefix(slot: number): void {
    const { sequence, salt } = this.at(slot);
    this.#prefixes.add(sequence.tokens.slice(0, sequence.computed), salt, (start, target) =>
      this.#cache.copyBlock(slot, start, target, 'into'),
    );
  }

  /** Frees a slot; the last occupant moves into it. */
  release(slot: number): void {
    const last = this.#occupants.length - 1;
    const moving = this.at(last);
    if (slot !== last) {
      this.#cache.copySlot(last, slot, moving.sequence.computed);
      this.#occupants[slot] = moving;
    }
    this.#occupants.length = last;
  }

  /**
   * Replaces the sequences of a search by their children in its next step. One child of each beam takes over its slot;
   * the others get copies, in slots that became free or in new ones. Remaining slots are released.
   */
  replaceBeams(search: SampledAnswer, beams: readonly Continuation[]): void {
    const used = this.#occupants.length;
    const slots = this.slotsOf(search);
    const free = new Set(slots.values());
    const copies: { from: number; to: number; length: number }[] = [];
    const further: Continuation[] = [];
    for (const beam of beams) {
      const slot = slots.get(beam.parent) as number;
      if (free.delete(slot)) this.#occupants[slot] = { ...this.at(slot), sequence: beam.sequence };
      else further.push(beam);
    }
    for (const { sequence, parent } of further) {
      const from = slots.get(parent) as number;
      const [to = this.#occupants.length] = free;
      free.delete(to);
      this.#occupants[to] = { ...this.at(from), sequence };
      copies.push({ from, to, length: sequence.computed });
    }
    if (this.#occupants.length > used) this.reserve(used);
    for (const { from, to, length } of copies) this.#cache.copySlot(from, to, length);
    for (const slot of [...free].sort((a, b) => b - a)) this.release(slot);
  }

  slotsOf(search: SampledAnswer): Map<Sequence, number> {
    const slots = new Map<Sequence, number>();
    for (const [slot, occupant] of this.#occupants.entries())
      if (occupant.answer === search) slots.set(occupant.sequence, slot);
    return slots;
  }
}
