interface Holder {
  forget(): void;
}

/** Most positions of all states together: some hundred megabytes. */
const MAXIMUM_POSITIONS = 500_000;
/** Samplers may keep automata that the cache of constraints has dropped, so their number is limited too. */
const MAXIMUM_HOLDERS = 4096;
/** Memory of a state, or of a cached way to one, besides its positions; in positions. */
const STATE = 5;

/** Limits the memory of the states of several automata. The automaton with the most drops its states first. */
export class StateMemory {
  readonly #held = new Map<Holder, number>();
  #total = 0;

  /**
   * Counts a state, or a cached way to one, with this many positions. Makes others drop theirs if there are too many.
   */
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
