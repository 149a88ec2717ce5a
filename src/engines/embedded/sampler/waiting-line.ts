interface Place<Item> {
  item: Item;
  priority: number;
  slots: number;
}

/**
 * What waits for slots: the lowest priority value first, among equals the one that came first. What stands first is
 * waited for until there are slots enough for it, so that what needs many is not overtaken for ever.
 */
export class WaitingLine<Item> {
  readonly #places: Place<Item>[] = [];

  get empty(): boolean {
    return this.#places.length === 0;
  }

  add(item: Item, { priority, slots }: { priority: number; slots: number }): void {
    let at = this.#places.length;
    while (at > 0 && (this.#places[at - 1] as Place<Item>).priority > priority) at--;
    this.#places.splice(at, 0, { item, priority, slots });
  }

  /** Takes out the first ones, as many as `free` slots hold. */
  admit(free: number): Item[] {
    let left = free;
    let count = 0;
    for (const { slots } of this.#places) {
      if (slots > left) break;
      left -= slots;
      count++;
    }
    return this.#places.splice(0, count).map(({ item }) => item);
  }

  /** Takes out those that `leaves` says, wherever they stand. */
  remove(leaves: (item: Item) => boolean): Item[] {
    const leaving = this.#places.filter(({ item }) => leaves(item));
    if (leaving.length > 0)
      this.#places.splice(0, this.#places.length, ...this.#places.filter(({ item }) => !leaves(item)));
    return leaving.map(({ item }) => item);
  }
}
