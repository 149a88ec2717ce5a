interface StateCache {
  clear(): void;
}

/** Most positions of all states together: some hundred megabytes. */
const maxPositions = 500_000;
/** Samplers may keep automata that the cache of constraints has dropped, so their number is limited too. */
const maxCaches = 4096;
/** Memory of a state, or of a cached way to one, besides its positions; in positions. */
const STATE = 5;

/** Limits the memory of the states of several automata. The automaton with the most drops its states first. */
export class StateMemory {
  readonly #held = new Map<StateCache, number>();
  #total = 0;

  /**
   * Counts a state, or a cached way to one, with this many positions. Makes others drop theirs if there are too many.
   */
  hold(cache: StateCache, positions: number): void {
    if (this.#held.size > maxCaches) for (const other of [...this.#held.keys()]) other.clear();
    if (this.#total > maxPositions) this.#largest()?.clear();
    this.#held.set(cache, (this.#held.get(cache) ?? 0) + positions + STATE);
    this.#total += positions + STATE;
  }

  #largest(): StateCache | undefined {
    let [largest, most]: [StateCache | undefined, number] = [undefined, -1];
    for (const [cache, positions] of this.#held) if (positions > most) [largest, most] = [cache, positions];
    return largest;
  }

  release(cache: StateCache): void {
    this.#total -= this.#held.get(cache) ?? 0;
    this.#held.delete(cache);
  }
}
