import { ServiceError } from '../errors.ts';

/**
 * One tenant may hold up to 16 times what is still free: 16/17 of all slots if it is alone, and less the
 * more others hold, so that a newcomer finds free slots (dynamic thresholds: Choudhury and Hahne, 1998).
 */
export const shareOfFree = 16;

/**
 * Whether a tenant that holds `held` may take `amount` more of what is free. A tenant that holds nothing
 * may take everything.
 */
export function mayTake(amount: number, { held, free }: { held: number; free: number }): boolean {
  return amount <= free && (held === 0 || held + amount <= shareOfFree * free);
}

/** A limit of the service is reached; the client should retry later. Status 429. */
export class BusyError extends ServiceError {
  /** When there should be free slots, in seconds from now: the `Retry-After` header. */
  readonly retryAfterSeconds: number;

  constructor(code: string, message: string, retryAfterSeconds: number) {
    super(429, code, `${message} Retry in ${retryAfterSeconds} s.`);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** After this idle time the pace is measured anew. */
const forgottenAfterMs = 3000;

const maxSeconds = 60;

interface SlotsOptions {
  limit: number;
  /** Code and message of the error when no slot is free. */
  code: string;
  message: string;
  /** A monotonic clock in milliseconds. Default `performance.now`. */
  now?: () => number;
}

/** Slots that are currently held. */
export interface HeldSlots {
  /** Takes more slots. @throws BusyError */
  add(amount: number): void;
  /** Frees all slots. Further calls do nothing. */
  release(): void;
}

interface Holding {
  tenant: string;
  amount: number;
  since: number;
}

/** A fixed number of slots shared among tenants. It estimates a `Retry-After` for tenants that find none. */
export class TenantSlots {
  readonly #options: SlotsOptions;
  readonly #now: () => number;
  #pace: Pace;
  /** When the last held slot was freed. */
  #idleSince = Number.NEGATIVE_INFINITY;
  /** In order of arrival. */
  readonly #holdings = new Set<Holding>();
  readonly #held = new Map<string, number>();
  /** Per tenant: when the requests rejected before this one should have been served. */
  readonly #promised = new Map<string, number>();
  #taken = 0;
  #refused = 0;

  constructor(options: SlotsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#pace = new Pace(this.#now());
  }

  get taken(): number {
    return this.#taken;
  }

  /** How many requests were refused. */
  get refused(): number {
    return this.#refused;
  }

  /** Milliseconds since the oldest holder arrived; 0 if nothing is held. */
  get oldestMs(): number {
    const [oldest] = this.#holdings;
    return oldest ? this.#now() - oldest.since : 0;
  }

  /** Checks whether a tenant could take slots now, without taking them. @throws BusyError */
  check(tenant: string, amount: number): void {
    const { limit, code, message } = this.#options;
    const held = this.#held.get(tenant) ?? 0;
    if (mayTake(amount, { held, free: limit - this.#taken })) return;
    this.#refused++;
    throw new BusyError(code, message, this.retryAfterSeconds(tenant, amount));
  }

  /** Takes slots. @throws BusyError */
  take(tenant: string, amount = 1): HeldSlots {
    const holding: Holding = { tenant, amount: 0, since: this.#now() };
    this.#add(holding, amount);
    this.#holdings.add(holding);
    return {
      add: (more) => {
        if (this.#holdings.has(holding)) this.#add(holding, more);
      },
      release: () => this.#release(holding),
    };
  }

  /**
   * Seconds until a rejected request should find free slots, from the current pace: 1 to 60. Each further
   * rejection of a tenant gets a later time.
   */
  retryAfterSeconds(tenant: string, amount: number): number {
    const now = this.#now();
    const rate = this.#pace.rate(now);
    // Nothing was freed yet: assume that the holders need as long again as they have taken so far.
    const waitMs = rate > 0 ? amount / rate : this.oldestMs;
    const last = Math.max(now, this.#promised.get(tenant) ?? now);
    const due = rate > 0 ? last + waitMs : now + waitMs;
    const promised = Math.min(due, now + maxSeconds * 1000);
    if (this.#promised.size >= 1000)
      for (const [other, time] of this.#promised) if (time <= now) this.#promised.delete(other);
    this.#promised.set(tenant, promised);
    return Math.min(maxSeconds, Math.max(1, Math.ceil((promised - now) / 1000)));
  }

  #add(holding: Holding, amount: number): void {
    const { tenant } = holding;
    this.check(tenant, amount);
    // An idle period says nothing about the pace of work.
    if (this.#taken === 0 && this.#now() - this.#idleSince > forgottenAfterMs)
      this.#pace = new Pace(this.#now());
    this.#taken += amount;
    this.#held.set(tenant, (this.#held.get(tenant) ?? 0) + amount);
    holding.amount += amount;
  }

  #release(holding: Holding): void {
    if (!this.#holdings.delete(holding)) return;
    const { tenant, amount } = holding;
    this.#taken -= amount;
    this.#pace.finished(amount, this.#now());
    if (this.#taken === 0) this.#idleSince = this.#now();
    const left = (this.#held.get(tenant) ?? 0) - amount;
    if (left > 0) this.#held.set(tenant, left);
    else this.#held.delete(tenant);
  }
}

/** The time constant of the mean, in milliseconds. */
const spanMs = 10_000;

/** How fast work finishes: an exponentially weighted mean over about ten seconds. */
class Pace {
  readonly #startedAt: number;
  /** Finished amounts, each decayed by its age. */
  #recent = 0;
  #at: number;

  constructor(now: number) {
    this.#startedAt = now;
    this.#at = now;
  }

  finished(amount: number, now: number): void {
    this.#fade(now);
    this.#recent += amount;
  }

  /** Amount per millisecond; 0 if nothing finished recently. */
  rate(now: number): number {
    this.#fade(now);
    const watched = spanMs * (1 - Math.exp(-(now - this.#startedAt) / spanMs));
    return watched > 0 ? this.#recent / watched : 0;
  }

  #fade(now: number): void {
    this.#recent *= Math.exp(-(now - this.#at) / spanMs);
    this.#at = now;
  }
}
