import { setImmediate as nextTurn } from 'node:timers/promises';

/** Rollouts that begin in one turn of the event loop. Thousands at once would keep it from everything else. */
const startsPerTurn = 128;

/** Spreads what begins over turns of the event loop, so that timers, sockets and signals are heard in between. */
export class PacedStarts {
  #thisTurn = 0;
  #turn: Promise<void> | undefined;

  /** Nothing where there is room in this turn, else what resolves in a later one that has room. */
  next(): Promise<void> | undefined {
    if (this.#take()) return undefined;
    return this.#wait();
  }

  async #wait(): Promise<void> {
    do await this.#turn;
    while (!this.#take());
  }

  #take(): boolean {
    this.#turn ??= nextTurn().then(() => {
      this.#thisTurn = 0;
      this.#turn = undefined;
    });
    if (this.#thisTurn >= startsPerTurn) return false;
    this.#thisTurn++;
    return true;
  }
}
