/** What waits for a moment: the smallest key is taken first, equal keys in order of arrival. */
export class Heap<Item> {
  readonly #entries: { key: number; order: number; item: Item }[] = [];
  #order = 0;

  get size(): number {
    return this.#entries.length;
  }

  /** The smallest key; Infinity if there is none. */
  get least(): number {
    return this.#entries[0]?.key ?? Number.POSITIVE_INFINITY;
  }

  push(key: number, item: Item): void {
    const entries = this.#entries;
    const entry = { key, order: this.#order++, item };
    let at = entries.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(entry, entries[parent]!)) break;
      entries[at] = entries[parent]!;
      at = parent;
    }
    entries[at] = entry;
  }

  pop(): Item | undefined {
    const entries = this.#entries;
    const first = entries[0];
    const last = entries.pop();
    if (!first || !last || entries.length === 0) return first?.item;
    let at = 0;
    for (let child = 1; child < entries.length; child = 2 * at + 1) {
      if (child + 1 < entries.length && this.#isBefore(entries[child + 1]!, entries[child]!)) child++;
      if (!this.#isBefore(entries[child]!, last)) break;
      entries[at] = entries[child]!;
      at = child;
    }
    entries[at] = last;
    return first.item;
  }

  #isBefore(a: { key: number; order: number }, b: { key: number; order: number }): boolean {
    return a.key < b.key || (a.key === b.key && a.order < b.order);
  }
}

export interface GpuSpeed {
  /** Replies sampled at once; more wait in order of arrival. */
  batch: number;
  /** Milliseconds of one token of each reply, above 0: `baseMs + eachMs * replies`. */
  baseMs: number;
  eachMs: number;
}

/** A GPU that samples replies together: all of its batch get tokens at the same rate. Times are in milliseconds. */
export class Gpu<Item> {
  readonly #speed: GpuSpeed;
  /** Keys: the tokens that a reply of the whole time would have when this one ends. */
  readonly #running = new Heap<Item>();
  readonly #waiting: { tokens: number; item: Item }[] = [];
  #tokens = 0;
  #now = 0;
  busyMs = 0;

  constructor(speed: GpuSpeed) {
    this.#speed = speed;
  }

  /** Replies that run or wait. */
  get load(): number {
    return this.#running.size + this.#waiting.length;
  }

  /** When the next reply ends if no other comes; Infinity without replies. */
  get nextEnd(): number {
    return this.#now + Math.max(0, this.#running.least - this.#tokens) * this.#tokenMs;
  }

  add(now: number, tokens: number, item: Item): void {
    this.#advance(now);
    this.#waiting.push({ tokens, item });
    this.#fill();
  }

  /** Removes the replies that have ended by now, which is at most `nextEnd`. */
  take(now: number): Item[] {
    this.#advance(now);
    const ended: Item[] = [];
    while (this.#running.least <= this.#tokens + 1e-6) ended.push(this.#running.pop()!);
    this.#fill();
    return ended;
  }

  get #tokenMs(): number {
    return this.#speed.baseMs + this.#speed.eachMs * this.#running.size;
  }

  #advance(now: number): void {
    if (this.#running.size > 0) {
      this.#tokens += (now - this.#now) / this.#tokenMs;
      this.busyMs += now - this.#now;
    }
    this.#now = now;
  }

  #fill(): void {
    while (this.#running.size < this.#speed.batch && this.#waiting.length > 0) {
      const { tokens, item } = this.#waiting.shift()!;
      this.#running.push(this.#tokens + tokens, item);
    }
  }
}

/** Processes that each do one thing at a time, in order of arrival. */
export class Cores {
  readonly #freeAt: number[];
  busyMs = 0;

  constructor(count: number) {
    this.#freeAt = Array.from({ length: count }, () => 0);
  }

  /** @returns when work that arrives now, for the process of this number, has ended. */
  work(now: number, process: number, ms: number): number {
    const at = process % this.#freeAt.length;
    this.busyMs += ms;
    this.#freeAt[at] = Math.max(now, this.#freeAt[at]!) + ms;
    return this.#freeAt[at];
  }

  /** @returns when work that arrives now and is shared by all processes has ended. */
  share(now: number, ms: number): number {
    const each = ms / this.#freeAt.length;
    return Math.max(...this.#freeAt.map((_, process) => this.work(now, process, each)));
  }

  /** Share of the time in which a process works. */
  utilisation(ms: number): number {
    return this.busyMs / ms / this.#freeAt.length;
  }
}
