/** The code or request that a piece of work is done for. */
export interface Caller {
  /** The tenant that the work is counted for; tenants take turns. Default: a tenant without a name. */
  tenant?: string | undefined;
  /** Aborts when the result is no longer needed. */
  signal?: AbortSignal | undefined;
}

export interface FairQueueOptions {
  /** An item that has waited this many milliseconds goes before all priorities. Default: none does. */
  overdueMs?: number;
  /** A clock in milliseconds that never goes back. Default: `performance.now`. */
  now?: () => number;
}

export interface QueuedItem {
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
  entries: Fifo<Entry<Item>>;
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
 * A queue in which tenants take turns: behind a tenant with many items, others wait for one of them, not for all. The
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
  /** No queued item was added before this time. */
  #oldestSince = 0;
  /** Tenant of the item taken last, if that item was overdue. */
  #lastOverdue: string | null = null;

  constructor({
    overdueMs = Number.POSITIVE_INFINITY,
    now = () => performance.now(),
  }: FairQueueOptions = {}) {
    this.#overdueMs = overdueMs;
    this.#now = now;
  }

  /** Number of queued items. */
  get count(): number {
    return this.#count;
  }

  /** Number of queued items of one tenant. */
  countOf(tenant = ''): number {
    return this.#levels.reduce((sum, { lanes }) => sum + (lanes.get(tenant)?.entries.length ?? 0), 0);
  }

  add(item: Item, { priority = 0, slots = 1, tenant = '' }: QueuedItem = {}): void {
    const level = this.#levelOf(priority);
    const known = level.lanes.get(tenant);
    const lane = known ?? { tenant, level, entries: new Fifo(), round: 0, order: 0 };
    if (!known) level.lanes.set(tenant, lane);
    const order = this.#added++;
    if (lane.entries.length === 0) {
      lane.round = Math.max(level.round, lane.round);
      lane.order = order;
    }
    const since = this.#now();
    if (this.#count++ === 0) this.#oldestSince = since;
    lane.entries.push({ item, slots, since, order });
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
      left -= next.entries.first?.slots ?? 0;
      if (left < 0) break;
      admitted.push(this.#shift(next).item);
    }
    return admitted;
  }

  /**
   * Removes and returns the items that `leaves` selects, by priority. They do not count against their tenant's share.
   */
  remove(leaves: (item: Item) => boolean): Item[] {
    const removed = this.#levels.flatMap(({ lanes }) =>
      [...lanes.values()].flatMap(({ entries }) => entries.remove(({ item }) => leaves(item))),
    );
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
    const first = this.#firstInTurn(isReady);
    const overdue = this.#now() - this.#overdueMs;
    if (!first || this.#oldestSince > overdue) return first;
    const oldest = this.#oldest();
    const entry = oldest?.entries.first;
    if (!oldest || !entry) return first;
    this.#oldestSince = entry.since;
    if (entry.since > overdue || !isReady(entry.item)) return first;
    // Many overdue items of one tenant still alternate with the items of others.
    return first.tenant !== oldest.tenant && this.#lastOverdue === oldest.tenant ? first : oldest;
  }

  #firstInTurn(isReady: (item: Item) => boolean): Lane<Item> | undefined {
    for (let at = 0; at < this.#levels.length; ) {
      const level = this.#levels[at] as Level<Item>;
      let found: Lane<Item> | undefined;
      let waiting = 0;
      for (const lane of level.lanes.values()) {
        const { first, length } = lane.entries;
        waiting += length;
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
    const lanes = this.#levels.flatMap((level) => [...level.lanes.values()]);
    return lanes.reduce<Lane<Item> | undefined>((found, lane) => {
      const [order, least] = [lane.entries.first?.order, found?.entries.first?.order];
      return order !== undefined && (least === undefined || order < least) ? lane : found;
    }, undefined);
  }

  #shift(lane: Lane<Item>): Entry<Item> {
    const { level, entries, tenant } = lane;
    const entry = entries.shift();
    this.#lastOverdue = this.#now() - entry.since >= this.#overdueMs ? tenant : null;
    level.round = Math.max(level.round, lane.round);
    lane.round += entry.slots;
    this.#count--;
    return entry;
  }
}

const isBefore = (one: Lane<unknown>, other: Lane<unknown>): boolean =>
  one.round < other.round || (one.round === other.round && one.order < other.order);

/** First in, first out. `Array.shift` moves every item: 155 µs for 20,000 items. */
class Fifo<Item> {
  #items: Item[] = [];
  #head = 0;

  get first(): Item | undefined {
    return this.#items[this.#head];
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item {
    const item = this.#items[this.#head++] as Item;
    if (this.#head * 2 > this.#items.length) this.remove(() => false);
    return item;
  }

  remove(leaves: (item: Item) => boolean): Item[] {
    const removed: Item[] = [];
    const kept: Item[] = [];
    for (let at = this.#head; at < this.#items.length; at++) {
      const item = this.#items[at] as Item;
      (leaves(item) ? removed : kept).push(item);
    }
    this.#items = kept;
    this.#head = 0;
    return removed;
  }
}
