import { TenantRounds } from './tenant-rounds.ts';

interface Place<Item> {
  item: Item;
  priority: number;
  slots: number;
  tenant: string;
  /** Of its tenant, among those of its priority. */
  round: number;
  /** How many came before it. */
  order: number;
  since: number;
  isGone: boolean;
}

/** Whatever has waited so long goes before all priorities: none keeps a request waiting for ever. */
export const overdueMs = 300_000;

/**
 * What waits for slots: the lowest priority value first, among equals the tenants in turns, each with the one that came
 * first. What stands first is waited for until there are slots enough for it, so that what needs many is not overtaken
 * for ever.
 */
export class WaitingLine<Item> {
  readonly #now: () => number;
  readonly #rounds = new TenantRounds();
  /** A binary heap: no place stands before the one at half its index. */
  #heap: Place<Item>[] = [];
  /** In the order in which they came; those that are gone are skipped. */
  #arrivals: Place<Item>[] = [];
  /** Where the arrivals begin that may still be there. */
  #first = 0;
  #added = 0;
  /** Whose place was taken last, where it was an overdue one. */
  #servedLate: string | null = null;

  /** `now`: a clock in milliseconds that never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get empty(): boolean {
    return this.#heap.length === 0;
  }

  get count(): number {
    return this.#heap.length;
  }

  /** `tenant`: who takes turns with others. Default: one without a name. */
  add(
    item: Item,
    { priority, slots, tenant = '' }: { priority: number; slots: number; tenant?: string },
  ): void {
    const round = this.#rounds.enter(tenant, { priority, slots });
    const place: Place<Item> = {
      ...{ item, priority, slots, tenant, round },
      order: this.#added++,
      since: this.#now(),
      isGone: false,
    };
    this.#arrivals.push(place);
    this.#heap.push(place);
    this.#rise(this.#heap.length - 1);
  }

  /** Takes out the first ones, as many as `free` slots hold. */
  admit(free: number): Item[] {
    const admitted: Item[] = [];
    let left = free;
    for (let next = this.#next(); next && next.slots <= left; next = this.#next()) {
      left -= next.slots;
      this.#take(next);
      admitted.push(next.item);
    }
    return admitted;
  }

  /** Takes out those that `leaves` says, wherever they stand. */
  remove(leaves: (item: Item) => boolean): Item[] {
    const [leaving, staying]: [Place<Item>[], Place<Item>[]] = [[], []];
    for (const place of this.#heap) (leaves(place.item) ? leaving : staying).push(place);
    if (leaving.length === 0) return [];
    for (const place of leaving) {
      place.isGone = true;
      this.#rounds.leave(place.tenant, { priority: place.priority, round: null });
    }
    // What is in order is a heap.
    this.#heap = staying.sort(byStanding);
    return leaving.sort(byStanding).map(({ item }) => item);
  }

  #next(): Place<Item> | undefined {
    while (this.#arrivals[this.#first]?.isGone) this.#first++;
    if (this.#first > this.#heap.length) {
      this.#arrivals = this.#arrivals.slice(this.#first);
      this.#first = 0;
    }
    const oldest = this.#arrivals[this.#first];
    const first = this.#heap[0];
    if (!oldest || !this.#isOverdue(oldest)) return first;
    // Somebody's crowd that has waited long takes turns with others all the same.
    return first && first.tenant !== oldest.tenant && this.#servedLate === oldest.tenant ? first : oldest;
  }

  #isOverdue({ since }: Place<Item>): boolean {
    return this.#now() - since >= overdueMs;
  }

  #take(place: Place<Item>): void {
    this.#servedLate = this.#isOverdue(place) ? place.tenant : null;
    place.isGone = true;
    const isFirst = place === this.#heap[0];
    const { tenant, priority } = place;
    this.#rounds.leave(tenant, { priority, round: isFirst ? place.round : null });
    const at = isFirst ? 0 : this.#heap.indexOf(place);
    const last = this.#heap.pop();
    if (!last || last === place) return;
    this.#heap[at] = last;
    this.#rise(at);
    this.#sink(at);
  }

  #rise(from: number): void {
    for (let at = from; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfBefore(at, parent)) return;
      at = parent;
    }
  }

  #sink(from: number): void {
    for (let at = from; ; ) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      const [a, b] = [this.#heap[left], this.#heap[right]];
      const child = a && b && isBefore(b, a) ? right : left;
      if (!this.#swapIfBefore(child, at)) return;
      at = child;
    }
  }

  #swapIfBefore(child: number, parent: number): boolean {
    const [a, b] = [this.#heap[child], this.#heap[parent]];
    if (!a || !b || !isBefore(a, b)) return false;
    this.#heap[parent] = a;
    this.#heap[child] = b;
    return true;
  }
}

const byStanding = (a: Place<unknown>, b: Place<unknown>): number =>
  a.priority - b.priority || a.round - b.round || a.order - b.order;

const isBefore = (a: Place<unknown>, b: Place<unknown>): boolean => byStanding(a, b) < 0;
