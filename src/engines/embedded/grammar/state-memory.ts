interface Holder {
  forget(): void;
}

/** Some hundred megabytes. */
const MAXIMUM_POSITIONS = 500_000;
/** What a state, or a way to it, takes beside its positions, in positions. */
const STATE = 5;

/** Bounds what the states of several automata take together. */
export class StateMemory {
  readonly #held = new Map<Holder, number>();
  #total = 0;

  /** Notes a state, or a way to it, of so many positions; makes all forget theirs where there are too many. */
  hold(holder: Holder, positions: number): void {
    if (this.#total > MAXIMUM_POSITIONS) for (const other of [...this.#held.keys()]) other.forget();
    this.#held.set(holder, (this.#held.get(holder) ?? 0) + positions + STATE);
    this.#total += positions + STATE;
  }

  release(holder: Holder): void {
    this.#total -= this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
  }
}
