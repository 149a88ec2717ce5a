interface Holder {
  forget(): void;
}

/** Some hundred megabytes. */
const MAXIMUM_POSITIONS = 500_000;
/** Automata that something samples under may outlive the cache of constraints: they are not to be kept for ever. */
const MAXIMUM_HOLDERS = 4096;
/** What a state, or a way to it, takes beside its positions, in positions. */
const STATE = 5;

/** Bounds what the states of several automata take together. The one that takes the most forgets its own first. */
export class StateMemory {
  readonly #held = new Map<Holder, number>();
  #total = 0;

  /** Notes a state, or a way to it, of so many positions; makes some forget theirs where there are too many. */
  hold(holder: Holder, positions: number): void {
    if (this.#held.size > MAXIMUM_HOLDERS) for (const other of [...this.#held.keys()]) other.forget();
    if (this.#total > MAXIMUM_POSITIONS) this.#largest()?.forget();
    this.#held.set(holder, (this.#held.get(holder) ?? 0) + positions + STATE);
    this.#total += positions + STATE;
  }

  #largest(): Holder | undefined {
    let [largest, most]: [Holder | undefined, number] = [undefined, -1];
    for (const [holder, positions] of this.#held) if (positions > most) [largest, most] = [holder, positions];
    return largest;
  }

  release(holder: Holder): void {
    this.#total -= this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
  }
}
