import type { BeamSearch, Continuation } from '../extensions/beam-search.ts';
import type { KeyValueCache } from './key-value-cache.ts';
import { blockLength, type PrefixCache } from './prefix-cache.ts';
import type { Sequence } from './sequence.ts';

/** What has a slot: a reply, or a beam of a search. */
export interface Occupant {
  sequence: Sequence;
  search: BeamSearch | null;
  salt: string | null;
  tenant: string;
  /** Names the prompt and the salt: those with the same may share what is computed of it. */
  prompt: string;
}

/** Who is in which slot of the key-value cache: slot i belongs to the i-th occupant. */
export class Slots {
  readonly #cache: KeyValueCache;
  readonly #prefixes: PrefixCache;
  readonly #occupants: Occupant[] = [];

  constructor(cache: KeyValueCache, prefixes: PrefixCache) {
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

  /** Takes a slot at the end; it has room after the next `reserve`. */
  append(occupant: Occupant): number {
    return this.#occupants.push(occupant) - 1;
  }

  /** Makes room for every token that waits to be computed; the first `used` slots hold something already. */
  reserve(used: number): void {
    const longest = this.#occupants.reduce(
      (length, { sequence }) => Math.max(length, sequence.tokens.length),
      1,
    );
    this.#cache.reserve(this.#occupants.length, longest, used);
  }

  /** Puts what the prefix cache knows of a new prompt into its slot; the last token is left to run. */
  restore(slot: number): void {
    const { sequence, salt } = this.at(slot);
    const blocks = this.#prefixes.find(sequence.tokens.slice(0, sequence.promptLength), salt);
    for (const [index, block] of blocks.entries()) this.#cache.copyBlockIn(slot, index * blockLength, block);
    const length = Math.min(blocks.length * blockLength, sequence.promptLength - 1);
    sequence.computed = length;
    sequence.cachedTokens = length;
  }

  /** Takes over what another slot has computed of the same prompt. */
  follow(slot: number, leader: Occupant): void {
    const { sequence } = this.at(slot);
    const length = Math.min(sequence.promptLength - 1, leader.sequence.computed);
    this.#cache.copySlot(this.#occupants.indexOf(leader), slot, length);
    sequence.computed = length;
    sequence.cachedTokens = length;
  }

  /** Keeps what is computed in a slot for later sequences. */
  keep(slot: number): void {
    const { sequence, salt } = this.at(slot);
    this.#prefixes.add(sequence.tokens.slice(0, sequence.computed), salt, (start, target) =>
      this.#cache.copyBlockOut(slot, start, target),
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
   * Puts the beams of a search's next step in place of those of the last one. One child of a beam takes its slot over;
   * its other children get copies of it, in slots that have become free, or else in new ones. What is left is freed.
   */
  succeed(search: BeamSearch, beams: readonly Continuation[]): void {
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

  /** The slots that a search's beams have. */
  slotsOf(search: BeamSearch): Map<Sequence, number> {
    const slots = new Map<Sequence, number>();
    for (const [slot, occupant] of this.#occupants.entries())
      if (occupant.search === search) slots.set(occupant.sequence, slot);
    return slots;
  }
}
