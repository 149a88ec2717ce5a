import { getOrInsert } from '../../util/get-or-insert.ts';
import type { AutomatonState, Cursor } from './automaton-state.ts';

/** A list of items that differ from each other. */
export interface DistinctList {
  id: number;
  /** Before an item, and before what stands between two items: each by itself, with its end as the end of the text. */
  item: AutomatonState;
  separator: AutomatonState;
  minimum: number;
  maximum: number;
}

/** The items of a list so far. Equal ones are the same object. */
interface Written {
  id: number;
  texts: readonly string[];
}

/** Most items of a list. An item that has more completions than these has one that differs from all others. */
export const maxDistinct = 10_000;

/** What a position within a list remembers of its text. */
interface Memory {
  list: DistinctList;
  part: 'item' | 'separator';
  /** After the text of the part. */
  state: AutomatonState;
  /** Whether the list may end with the current item, and whether it may go on after it. */
  mayBeLast: boolean;
  mayBeFollowed: boolean;
  /** The items before the current part; none if the text of the item is forgotten: then they do not matter. */
  written: Written;
  /** Whether one more item is written, whose text is forgotten. */
  hasUnknown: boolean;
  /** Whether the text of an item is forgotten once no other begins so. */
  forgets: boolean;
  /** The text of the item so far, a character for each byte; null if it is forgotten. */
  text: string | null;
  /** The written items that begin with that text. */
  rivals: readonly string[];
}

/**
 * A position within a list whose items must differ. It remembers the items, so it has a text of its own and few
 * positions are equal. To search a vocabulary, forget the text of the current item where no other begins so: then all
 * characters lead to one position, as in other texts. An item that ends without its text lets no other item end.
 *
 * No position is a dead end: an item goes on only where more texts complete it than are written already.
 */
class DistinctCursor implements Cursor {
  readonly id: number;
  readonly #lists: DistinctLists;
  readonly #memory: Memory;
  #ranges: [first: number, last: number][] | undefined;
  readonly #next = new Map<number, readonly DistinctCursor[]>();

  constructor(lists: DistinctLists, id: number, memory: Memory) {
    this.#lists = lists;
    this.id = id;
    this.#memory = memory;
  }

  get isPrecise(): boolean {
    return !this.#memory.forgets;
  }

  get isUncertain(): boolean {
    return this.#memory.hasUnknown || this.#memory.state.isUncertain;
  }

  /** The position without the text of its item. */
  get relaxed(): DistinctCursor {
    return this.isPrecise ? this.#lists.find({ ...this.#memory, forgets: true }) : this;
  }

  get mayEnd(): boolean {
    return this.#memory.mayBeLast && this.#itemMayEnd;
  }

  get #itemMayEnd(): boolean {
    const { part, state, hasUnknown, rivals, text } = this.#memory;
    return part === 'item' && state.complete && !hasUnknown && !rivals.includes(text ?? '');
  }

  /** The separator that may begin here; null if the list has all its items, or the item must go on. */
  get #separator(): AutomatonState | null {
    return this.#memory.mayBeFollowed && this.#itemMayEnd ? this.#memory.list.separator : null;
  }

  get ranges(): readonly (readonly [first: number, last: number])[] {
    if (this.#ranges) return this.#ranges;
    const { part, state } = this.#memory;
    const item = part === 'item' ? this.#memory : this.#lists.beginning(this.#memory);
    const states = [state, part === 'item' ? this.#separator : item.state];
    const single = [...new Set(item.rivals.map((one) => one.charCodeAt(item.text?.length ?? 0)))];
    this.#ranges = [];
    for (let byte = 0; byte < 0x100; ) {
      let end = single.includes(byte) ? byte + 1 : 0x100;
      for (const one of states) if (one) end = Math.min(end, one.rangeEnd(byte));
      for (const one of single) if (one > byte) end = Math.min(end, one);
      if (this.step(byte).length > 0) this.#ranges.push([byte, end - 1]);
      byte = end;
    }
    return this.#ranges;
  }

  /** The positions after a byte: several where a separator may go on or end. */
  step(byte: number): readonly DistinctCursor[] {
    return getOrInsert(this.#next, byte, () => {
      const { part, state } = this.#memory;
      const found = part === 'item' ? [this.#itemAfter(this.#memory, byte)] : [];
      const separator = part === 'item' ? this.#separator?.step(byte) : state.step(byte);
      if (separator) found.push(this.#separatorAt(separator));
      if (part === 'separator' && state.complete)
        found.push(this.#itemAfter(this.#lists.beginning(this.#memory), byte));
      return found.filter((one) => one !== null);
    });
  }

  #itemAfter(before: Memory, byte: number): DistinctCursor | null {
    const state = before.state.step(byte);
    if (!state) return null;
    const { text, hasUnknown } = before;
    const rivals = before.rivals.filter((one) => one.charCodeAt(text?.length ?? 0) === byte);
    const taken = hasUnknown ? maxDistinct : rivals.length;
    if (taken > 0 && this.#lists.completions(state, taken + 1) <= taken) return null;
    return this.#lists.find({
      ...before,
      part: 'item',
      state,
      rivals,
      text: text === null ? null : text + String.fromCharCode(byte),
    });
  }

  #separatorAt(state: AutomatonState): DistinctCursor {
    const { part, text, written } = this.#memory;
    if (part === 'separator') return this.#lists.find({ ...this.#memory, state });
    const after = { ...this.#memory, part: 'separator' as const, state, rivals: [], text: '' };
    if (text === null) return this.#lists.find({ ...after, hasUnknown: true });
    return this.#lists.find({ ...after, written: this.#lists.with(written, text) });
  }
}

/** The positions within the lists of an automaton. Equal ones are the same object, unless they remember a text. */
export class DistinctLists {
  readonly #none: Written = { id: 0, texts: [] };
  #written = new Map<string, Written>();
  #cursors = new Map<string, DistinctCursor>();
  #count = 1;
  #states = new WeakMap<AutomatonState, number>();
  #completions = new WeakMap<AutomatonState, { most: number; count: number }>();

  clear(): void {
    this.#written = new Map();
    this.#cursors = new Map();
  }

  /** The position before the first item. */
  start(list: DistinctList): DistinctCursor {
    return this.find(this.beginning({ list, written: this.#none, hasUnknown: false, forgets: false }));
  }

  /** Before the next item. */
  beginning(before: Pick<Memory, 'list' | 'written' | 'hasUnknown' | 'forgets'>): Memory {
    const { list, written } = before;
    const count = written.texts.length + 1;
    return {
      ...before,
      part: 'item',
      state: list.item,
      mayBeLast: count >= list.minimum,
      mayBeFollowed:
        count < Math.min(list.maximum, maxDistinct) && this.completions(list.item, count + 1) > count,
      rivals: written.texts,
      text: '',
    };
  }

  find(memory: Memory): DistinctCursor {
    const { list, part, mayBeLast, mayBeFollowed, hasUnknown, forgets, rivals } = memory;
    const isForgotten = forgets && part === 'item' && rivals.length === 0;
    const state = isForgotten ? memory.state.relaxed : memory.state;
    const text = isForgotten ? null : memory.text;
    const written = isForgotten || hasUnknown ? this.#none : memory.written;
    const made = () => new DistinctCursor(this, this.#count++, { ...memory, state, text, written });
    if (!forgets && text !== '') return made();
    const number = getOrInsert(this.#states, state, () => this.#count++);
    const flags = [mayBeLast, mayBeFollowed, hasUnknown, forgets, text === null].map(Number).join('');
    const key = [list.id, part, number, written.id, flags, text].join(' ');
    return getOrInsert(this.#cursors, key, made);
  }

  with(written: Written, text: string): Written {
    return getOrInsert(this.#written, `${written.id} ${text}`, () => ({
      id: this.#count++,
      texts: [...written.texts, text],
    }));
  }

  /** How many texts complete an item, counted until there are as many as wanted, shortest first. */
  completions(from: AutomatonState, wanted: number): number {
    const known = this.#completions.get(from);
    if (known && (known.most >= wanted || known.count < known.most)) return known.count;
    // Twice as many, because lists grow by one.
    const most = 2 * wanted;
    let count = 0;
    let level = new Map([[from, 1]]);
    while (level.size > 0 && count < most) {
      const next = new Map<AutomatonState, number>();
      for (const [state, ways] of level) {
        if (state.complete) count += ways;
        for (let byte = 0; byte < 0x100; byte = state.rangeEnd(byte)) {
          const to = state.step(byte);
          if (to) next.set(to, Math.min(most, (next.get(to) ?? 0) + ways * (state.rangeEnd(byte) - byte)));
        }
      }
      level = next;
    }
    this.#completions.set(from, { most, count });
    return count;
  }
}
