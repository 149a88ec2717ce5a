import { copyRow, type LogitRows } from '../sampling/distribution.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { Decoder, Wanted } from './decoder.ts';
import type { DeferredMasking } from './deferred-masking.ts';
import type { Occupant, Slots } from './slots.ts';

/**
 * Most elements that the tokens of one run need (`Decoder.elementsPerToken`): bounds the memory of long
 * prompts. A large model may have more, as many as a quarter of an MLP matrix of each layer, so that each reading of its
 * weights computes enough tokens.
 */
const maxElements = ({ layers, width, mlpWidth }: Architecture) =>
  Math.max(4_000_000, (layers * width * mlpWidth) / 4);

/** Runs of the decoder: each computes the next tokens of several slots, and chooses the token after a slot's last one. */
export class Runs {
  /** Most tokens of one run. */
  readonly mostTokens: number;
  readonly #decoder: Decoder;
  readonly #slots: Slots;
  readonly #deferredMasking: DeferredMasking;

  constructor(decoder: Decoder, architecture: Architecture, slots: Slots, deferredMasking: DeferredMasking) {
    this.#decoder = decoder;
    this.#slots = slots;
    this.#deferredMasking = deferredMasking;
    this.mostTokens = Math.max(1, Math.floor(maxElements(architecture) / decoder.elementsPerToken));
  }

  /** Computes the pending tokens of slots from `first`, each up to its target, in as many runs as that takes. */
  async computeAll(first: number, targets: readonly number[]): Promise<void> {
    if (targets.length === 0) return;
    this.#slots.reserve(this.#slots.count);
    while (await this.compute(first, targets));
  }

  /**
   * Computes the next tokens of slots from `first` in one run, each up to its target, and chooses the token after that.
   * Returns whether there were any.
   */
  async compute(
    first: number,
    targets: readonly number[],
    maxTokens = Number.POSITIVE_INFINITY,
  ): Promise<boolean> {
    const occupants = this.#slots.occupants.slice(first, first + targets.length);
    const perRun = Math.max(1, Math.floor(this.mostTokens / targets.length));
    const most = Math.min(perRun, Math.floor(maxTokens / targets.length));
    const chunks = occupants.map(({ sequence: { tokens, computed }, answer }, row) => {
      const end = answer.ended ? computed : Math.min(targets[row] as number, computed + most);
      return { tokens, start: computed, end };
    });
    if (chunks.every(({ start, end }) => start === end)) return false;
    const wanted = chunks.map(({ start, end }, row): Wanted => {
      const { sequence, answer } = occupants[row] as Occupant;
      return start < end && end === targets[row] ? (answer.draw(sequence) ?? 'logits') : null;
    });
    const { rows, outcomes } = await this.#decoder.step(first, chunks, wanted);
    for (const [row, { end }] of chunks.entries()) {
      const occupant = occupants[row] as Occupant;
      occupant.sequence.computed = end;
      const outcome = outcomes[row] ?? null;
      if (wanted[row] === null || outcome === null) continue;
      if (typeof outcome === 'number') this.#choose(occupant, rows, outcome);
      else occupant.sequence.takeDrawn(outcome);
    }
    return true;
  }

  /** Chooses the next token, or defers it when the tokens its constraint allows are not known yet. */
  #choose({ sequence, answer, tenant }: Occupant, rows: LogitRows, row: number): void {
    if (sequence.prepare(() => true)) answer.choose(rows, row, sequence);
    else this.#deferredMasking.add(tenant, { sequence, answer, logits: copyRow(rows, row) });
  }
}
