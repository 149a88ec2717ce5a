import { sumOf } from './sums.ts';
/** The code or request that a piece of work is done for. */
export interface Caller {
  /** The tenant that the work is counted for; tenants alternate. Default: a tenant without a name. */
  tenant?: string | undefined;
  /** Aborts when the result is no longer needed. */
  signal?: AbortSignal | undefined;
}

interface QueuedItem {
  /** Lower values go first. Default 0. */
  priority?: number;
  /** Slots that the item takes; tenants get equal shares of slots. Default 1. */
  slots?: number;
  /** Default: a tenant without a name. */
  tenant?: string | undefined;
}

interface Entry<Item> {
  item: Item;
  slots: number;
  since: number;
  /** Number of items added before it. */
  order: number;
}

/** The items of one tenant at one priority. */
interface Lane<Item> {
  tenant: string;
  level: Level<Item>;
  entries: Entry<Item>[];
  /** Virtual start time of the first entry, in slots. The lane with the lowest one goes next. */
  round: number;
  /** Breaks ties between lanes of the same round: when an item was last added to the empty lane. */
  order: number;
}

interface Level<Item> {
  priority: number;
  /** The latest round of a lane from which an item was taken. */
  round: number;
  lanes: Map<string, Lane<Item>>;
}

/**
 * A queue in which tenants alternate: behind a tenant with many items, others wait for one of them, not for all. The
 * lowest priority value goes first. Within a priority, tenants get equal shares of slots (start-time fair queueing:
 * Goyal, Vin and Cheng, 1996), and a tenant's oldest item goes first.
 */
export class FairQueue<Item> {
  readonly #overdueMs: number;
  readonly #now: () => number;
  /** Lowest priority value first. */
  readonly #levels: Level<Item>[] = [];
  #count = 0;
  #added = 0;
  /** Tenant of the item taken last, if that item was overdue. */
  #lastOverdue: string | null = null;

  /**
   * @param options.overdueMs An item that has waited this long goes before all priorities. Default: none does.
   * @param options.now A clock in milliseconds that never goes back. Default: `performance.now`.
   */
  constructor({ overdueMs = Number.POSITIVE_INFINITY, now = () => performance.now() } = {}) {
    this.#overdueMs = overdueMs;
    this.#now = now;
  }

  /** Number of queued items. */
  get count(): number {
    return this.#count;
  }

  /** Number of queued items of one tenant. */
  countOf(tenant = ''): number {
    return sumOf(this.#levels, ({ lanes }) => lanes.get(tenant)?.entries.length ?? 0);
  }

  add(item: Item, { priority = 0, slots = 1, tenant = '' }: QueuedItem = {}): void {
    const level = this.#levelOf(priority);
    const known = level.lanes.get(tenant);
    const lane = known ?? { tenant, level, entries: [], round: 0, order: 0 };
    if (!known) level.lanes.set(tenant, lane);
    const order = this.#added++;
    if (lane.entries.length === 0) {
      lane.round = Math.max(level.round, lane.round);
      lane.order = order;
    }
    this.#count++;
    lane.entries.push({ item, slots, since: this.#now(), order });
  }

  /** Takes the next item. An item that `isReady` rejects is skipped, and so are the tenant's items behind it. */
  take(isReady?: (item: Item) => boolean): Item | undefined {
    const next = this.#next(isReady);
    return next && this.#shift(next).item;
  }

  /** Takes the next items that fit into `free` slots. Nothing overtakes an item that needs more slots than are left. */
  admit(free: number): Item[] {
    const admitted: Item[] = [];
    let left = free;
    for (let next = this.#next(); next; next = this.#next()) {
      left -= next.entries[0]!.slots;
      if (left < 0) break;
      admitted.push(this.#shift(next).item);
    }
    return admitted;
  }

  /** Removes and returns the items that match, by priority. They do not count against their tenant's share. */
  remove(matches: (item: Item) => boolean): Item[] {
    const lanes = this.#levels.flatMap((level) => [...level.lanes.values()]);
    const removed = lanes.flatMap((lane) => {
      const matching = new Set(lane.entries.filter(({ item }) => matches(item)));
      lane.entries = lane.entries.filter((entry) => !matching.has(entry));
      return [...matching];
    });
    this.#count -= removed.length;
    return removed.map(({ item }) => item);
  }

  #levelOf(priority: number): Level<Item> {
    const found = this.#levels.findIndex((level) => level.priority >= priority);
    const at = found < 0 ? this.#levels.length : found;
    const known = this.#levels[at];
    if (known?.priority === priority) return known;
    const level: Level<Item> = { priority, round: 0, lanes: new Map() };
    this.#levels.splice(at, 0, level);
    return level;
  }

  #next(isReady: (item: Item) => boolean = () => true): Lane<Item> | undefined {
    const first = this.#firstByPriority(isReady);
    const oldest = this.#oldest();
    const entry = oldest?.entries[0];
    if (!first || !entry || this.#now() - entry.since < this.#overdueMs || !isReady(entry.item)) return first;
    // Many overdue items of one tenant still alternate with the items of others.
    return first.tenant !== oldest.tenant && this.#lastOverdue === oldest.tenant ? first : oldest;
  }

  #firstByPriority(isReady: (item: Item) => boolean): Lane<Item> | undefined {
    for (let at = 0; at < this.#levels.length; ) {
      const level = this.#levels[at] as Level<Item>;
      let found: Lane<Item> | undefined;
      let waiting = 0;
      for (const lane of level.lanes.values()) {
        const [first] = lane.entries;
        waiting += lane.entries.length;
        // An empty lane is kept while its tenant is ahead of the round, so that leaving the queue resets no share.
        if (!first && lane.round <= level.round) level.lanes.delete(lane.tenant);
        if (first && (!found || isBefore(lane, found)) && isReady(first.item)) found = lane;
      }
      if (found) return found;
      if (waiting === 0) this.#levels.splice(at, 1);
      else at++;
    }
    return undefined;
  }

  /** The lane whose first item is the oldest. */
  #oldest(): Lane<Item> | undefined {
    let oldest: Lane<Item> | undefined;
    for (const { lanes } of this.#levels)
      for (const lane of lanes.values()) {
        const order = lane.entries[0]?.order;
        if (order !== undefined && (!oldest || order < oldest.entries[0]!.order)) oldest = lane;
      }
    return oldest;
  }

  #shift(lane: Lane<Item>): Entry<Item> {
    const { level, entries, tenant } = lane;
    const entry = entries.shift()!;
    this.#lastOverdue = this.#now() - entry.since >= this.#overdueMs ? tenant : null;
    level.round = Math.max(level.round, lane.round);
    lane.round += entry.slots;
    this.#count--;
    return entry;
  }
}

const isBefore = (one: Lane<unknown>, other: Lane<unknown>): boolean =>
  one.round < other.round || (one.round === other.round && one.order < other.order);
