/**
 * One tenant may hold this many times what is left free: 16 of 17 parts where nobody else is there, and less the more
 * others hold, so that whoever comes later finds room (dynamic thresholds: Choudhury and Hahne, 1998).
 */
export const shareOfFree = 16;

/** Whether an tenant who holds so much may take more of what is free. One who holds nothing may take all of it. */
export function mayTake(amount: number, { held, free }: { held: number; free: number }): boolean {
  return amount <= free && (held === 0 || held + amount <= shareOfFree * free);
}

/** An idle time after which the pace is measured anew. */
const forgottenAfterMs = 3000;

const shortestSeconds = 1;
const longestSeconds = 60;

/** Places that somebody holds. */
export interface HeldPlaces {
  /** Takes as many more; false where there is no room. */
  add(amount: number): boolean;
  /** Gives all of them back. What comes after the first time does nothing. */
  release(): void;
}

interface Holding {
  tenant: string;
  amount: number;
  since: number;
}

/** A number of places that are shared among tenants, and what they are told for whom there is none. */
export class Places {
  readonly limit: number;
  readonly #now: () => number;
  #pace: Pace;
  /** When the last place was given back that left none taken. */
  #idleSince = Number.NEGATIVE_INFINITY;
  /** In the order in which they came. */
  readonly #holdings = new Set<Holding>();
  readonly #held = new Map<string, number>();
  /** By tenant, when those whom he has been sent away with will have had their turn. */
  readonly #promised = new Map<string, number>();
  #taken = 0;
  #refused = 0;

  /** `now`: a clock in milliseconds that never goes back. */
  constructor(limit: number, now: () => number = () => performance.now()) {
    this.limit = limit;
    this.#now = now;
    this.#pace = new Pace(now());
  }

  get taken(): number {
    return this.#taken;
  }

  /** How many times there was no room. */
  get refused(): number {
    return this.#refused;
  }

  /** Milliseconds since the oldest holder came; 0 where there is none. */
  get oldestMs(): number {
    const [oldest] = this.#holdings;
    return oldest ? this.#now() - oldest.since : 0;
  }

  /** Whether there is room. Where there is not it counts as a refusal. */
  hasRoom(tenant: string, amount: number): boolean {
    const held = this.#held.get(tenant) ?? 0;
    if (mayTake(amount, { held, free: this.limit - this.#taken })) return true;
    this.#refused++;
    return false;
  }

  /** Null where there is no room. */
  take(tenant: string, amount: number): HeldPlaces | null {
    const holding: Holding = { tenant, amount: 0, since: this.#now() };
    if (!this.#add(holding, amount)) return null;
    this.#holdings.add(holding);
    return {
      add: (more) => this.#holdings.has(holding) && this.#add(holding, more),
      release: () => this.#release(holding),
    };
  }

  /**
   * After how many seconds there should be room for somebody who was sent away: whoever is sent away later is told a
   * later time, as fast as places become free. 1 to 60.
   */
  retryAfterSeconds(tenant: string, amount: number): number {
    const now = this.#now();
    const rate = this.#pace.rate(now);
    // Where nothing has left yet, what is there may well stay for as long as it has been there.
    const waitMs = rate > 0 ? amount / rate : this.oldestMs;
    const last = Math.max(now, this.#promised.get(tenant) ?? now);
    const due = rate > 0 ? last + waitMs : now + waitMs;
    const promised = Math.min(due, now + longestSeconds * 1000);
    this.#forgetPast(now);
    this.#promised.set(tenant, promised);
    return Math.min(longestSeconds, Math.max(shortestSeconds, Math.ceil((promised - now) / 1000)));
  }

  #add(holding: Holding, amount: number): boolean {
    if (!this.hasRoom(holding.tenant, amount)) return false;
    const held = this.#held.get(holding.tenant) ?? 0;
    // What there was nothing to do in says nothing about how fast work is done.
    if (this.#taken === 0 && this.#now() - this.#idleSince > forgottenAfterMs)
      this.#pace = new Pace(this.#now());
    this.#taken += amount;
    this.#held.set(holding.tenant, held + amount);
    holding.amount += amount;
    return true;
  }

  #release(holding: Holding): void {
    if (!this.#holdings.delete(holding)) return;
    const { tenant, amount } = holding;
    this.#taken -= amount;
    this.#pace.left(amount, this.#now());
    if (this.#taken === 0) this.#idleSince = this.#now();
    const left = (this.#held.get(tenant) ?? 0) - amount;
    if (left > 0) this.#held.set(tenant, left);
    else this.#held.delete(tenant);
  }

  #forgetPast(now: number): void {
    if (this.#promised.size < 1000) return;
    for (const [tenant, due] of this.#promised) if (due <= now) this.#promised.delete(tenant);
  }
}

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
