/** How far back the mean reaches, in milliseconds. */
const spanMs = 10_000;

/** How fast work leaves: a mean over about the last ten seconds, in which the latest weigh most. */
export class Pace {
  readonly #began: number;
  /** What has left, each amount faded by its age. */
  #recent = 0;
  #at: number;

  constructor(now: number) {
    this.#began = now;
    this.#at = now;
  }

  left(amount: number, now: number): void {
    this.#fade(now);
    this.#recent += amount;
  }

  /** Amount in a millisecond; 0 where nothing has left for long. */
  rate(now: number): number {
    this.#fade(now);
    const watched = spanMs * (1 - Math.exp(-(now - this.#began) / spanMs));
    return watched > 0 ? this.#recent / watched : 0;
  }

  #fade(now: number): void {
    this.#recent *= Math.exp(-(now - this.#at) / spanMs);
    this.#at = now;
  }
}
