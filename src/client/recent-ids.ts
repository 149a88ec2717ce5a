/** The newest ids of a list that may have no end. */
export class RecentIds {
  readonly #most: number;
  #newer = new Set<string>();
  #older = new Set<string>();

  /** @param most How many are remembered for certain; up to twice as many are. */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#newer.size + this.#older.size;
  }

  /** Whether it was not there before. */
  add(id: string): boolean {
    if (this.#newer.has(id) || this.#older.has(id)) return false;
    if (this.#newer.size >= this.#most) {
      this.#older = this.#newer;
      this.#newer = new Set();
    }
    this.#newer.add(id);
    return true;
  }
}
