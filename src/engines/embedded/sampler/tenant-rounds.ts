interface Lane {
  waiting: number;
  /** The round of its next place. */
  next: number;
}

/** Those of one priority: each is a line of its own. */
interface Rounds {
  waiting: number;
  /** The latest round of which something has been admitted. */
  now: number;
  lanes: Map<string, Lane>;
}

/**
 * The rounds in which tenants take turns: what an tenant adds comes in rounds of its own count, from the one that is
 * due, so that in each round each has as many slots (start-time fair queueing: Goyal, Vin and Cheng, 1996).
 */
export class TenantRounds {
  /** By priority. */
  readonly #rounds = new Map<number, Rounds>();

  /** The round of one more place of an tenant, for so many slots. */
  enter(tenant: string, { priority, slots }: { priority: number; slots: number }): number {
    let rounds = this.#rounds.get(priority);
    if (!rounds) {
      rounds = { waiting: 0, now: 0, lanes: new Map() };
      this.#rounds.set(priority, rounds);
    }
    const lane = rounds.lanes.get(tenant) ?? { waiting: 0, next: 0 };
    rounds.lanes.set(tenant, lane);
    const round = Math.max(rounds.now, lane.next);
    rounds.waiting++;
    lane.waiting++;
    lane.next = round + slots;
    return round;
  }

  /** A place is left: by its turn, of the given round, or before its turn, where that is null. */
  leave(tenant: string, { priority, round }: { priority: number; round: number | null }): void {
    const rounds = this.#rounds.get(priority);
    const lane = rounds?.lanes.get(tenant);
    if (!rounds || !lane) return;
    rounds.waiting--;
    lane.waiting--;
    if (round !== null) rounds.now = Math.max(rounds.now, round);
    // Whoever has had a turn stays behind the others of its round.
    else if (lane.waiting === 0) rounds.lanes.delete(tenant);
    if (rounds.waiting === 0) this.#rounds.delete(priority);
  }
}
