import type { SlotCache } from '../decoder.ts';
import type { KeyValueBlock } from '../prefix-cache.ts';
import { blockBytes, blockPositions } from './attention.ts';
import type { TinyMemory } from './tiny-memory.ts';

/** Bytes of a number. */
const size = 4;

/**
 * The slots of a memory from `firstSlot`. A slot is as wide as the context, since positions that are not used take no
 * memory and no step reads them.
 */
export class TinyCache implements SlotCache {
  readonly blockSize: number;
  readonly #memory: TinyMemory;
  readonly #firstSlot: number;

  constructor(memory: TinyMemory, firstSlot: number) {
    this.#memory = memory;
    this.#firstSlot = firstSlot;
    this.blockSize = (memory.architecture.layers * 2 * blockBytes(memory.architecture)) / size;
  }

  get mostSlots(): number {
    return this.#memory.mostSlots - this.#firstSlot;
  }

  get width(): number {
    return this.#memory.architecture.contextLength;
  }

  reserve(slots: number, width: number): void {
    this.#memory.reserve(this.#firstSlot + slots, width);
  }

  clear(): void {
    if (this.#firstSlot > 0) this.#memory.shrink();
  }

  copySlot(from: number, to: number, length: number): void {
    if (from === to) return;
    const { floats } = this.#memory;
    const bytes = Math.ceil(length / blockPositions) * blockBytes(this.#memory.architecture);
    const targets = this.#blocks(to, 0);
    for (const [index, source] of this.#blocks(from, 0).entries())
      floats.copyWithin((targets[index] as number) / size, source / size, (source + bytes) / size);
  }

  copyBlock(slot: number, start: number, block: KeyValueBlock, direction: 'into' | 'from'): void {
    const elements = blockBytes(this.#memory.architecture) / size;
    for (const [index, address] of this.#blocks(slot, start).entries()) {
      const cached = this.#memory.view(address, elements);
      const kept = block.subarray(index * elements, (index + 1) * elements);
      if (direction === 'into') kept.set(cached);
      else cached.set(kept);
    }
  }

  #blocks(slot: number, position: number): number[] {
    return this.#memory.blocks(this.#firstSlot + slot, position);
  }
}
