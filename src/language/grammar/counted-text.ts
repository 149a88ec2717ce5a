import { getOrInsert } from '../../util/get-or-insert.ts';
import type { AutomatonState, Cursor } from './automaton-state.ts';

/** The inside of a JSON string, with a bound on its characters. */
export interface CountedText {
  id: number;
  /** The text by itself, with its end as the end of the text. */
  start: AutomatonState;
  maximum: number;
}

/** How many bytes of an escape are still to come, after a backslash and after `\u`. */
const afterBackslash = -1;
const hexDigits = 4;

/** What is left of an escape after a byte. */
function escapeAfter(pending: number, byte: number): number {
  if (pending === afterBackslash) return byte === 0x75 ? hexDigits : 0;
  if (pending > 0) return pending - 1;
  return byte === 0x5c ? afterBackslash : 0;
}

/** Whether a byte begins a character: neither within an escape nor within a character of UTF-8. */
const begins = (pending: number, byte: number): boolean => pending === 0 && (byte < 0x80 || byte >= 0xc0);

/**
 * A position within a text of limited length, which knows how many characters come before it. In an automaton that has
 * the count in its states, patterns with many states would have too many. No position is a dead end: a character is
 * only admitted if a text short enough begins so.
 */
export class CountedCursor implements Cursor {
  readonly isPrecise = false;
  readonly isUncertain = false;
  readonly relaxed = this;
  readonly id: number;
  readonly #texts: CountedTexts;
  readonly #text: CountedText;
  readonly #state: AutomatonState;
  readonly #count: number;
  readonly #pending: number;

  constructor(
    texts: CountedTexts,
    at: { id: number; text: CountedText; state: AutomatonState; count: number; pending: number },
  ) {
    this.#texts = texts;
    this.id = at.id;
    this.#text = at.text;
    this.#state = at.state;
    this.#count = at.count;
    this.#pending = at.pending;
  }

  get mayEnd(): boolean {
    return this.#state.complete;
  }

  get ranges(): readonly (readonly [first: number, last: number])[] {
    const found: [number, number][] = [];
    for (let byte = 0; byte < 0x100; ) {
      let end = this.#state.rangeEnd(byte);
      // Bytes that count, and those that begin an escape, lead elsewhere than others.
      for (const border of [0x5c, 0x5d, 0x75, 0x76, 0x80, 0xc0])
        if (border > byte) end = Math.min(end, border);
      if (this.step(byte).length > 0) found.push([byte, end - 1]);
      byte = end;
    }
    return found;
  }

  step(byte: number): readonly CountedCursor[] {
    const state = this.#state.step(byte);
    if (!state) return [];
    const count = this.#count + (begins(this.#pending, byte) ? 1 : 0);
    const pending = escapeAfter(this.#pending, byte);
    if (count + this.#texts.shortest(state, pending) > this.#text.maximum) return [];
    return [this.#texts.find(this.#text, state, count, pending)];
  }
}

/** The positions within the counted texts of an automaton. Equal ones are the same object. */
export class CountedTexts {
  #cursors = new Map<string, CountedCursor>();
  #count = 1;
  readonly #states = new WeakMap<AutomatonState, number>();
  readonly #shortest = new WeakMap<AutomatonState, Map<number, number>>();

  clear(): void {
    this.#cursors = new Map();
  }

  start(text: CountedText): CountedCursor {
    return this.find(text, text.start, 0, 0);
  }

  find(text: CountedText, state: AutomatonState, count: number, pending: number): CountedCursor {
    const number = getOrInsert(this.#states, state, () => this.#count++);
    return getOrInsert(
      this.#cursors,
      `${text.id} ${number} ${count} ${pending}`,
      () => new CountedCursor(this, { id: this.#count++, text, state, count, pending }),
    );
  }

  /** The fewest characters that complete a text from a state on. */
  shortest(from: AutomatonState, pending: number): number {
    const known = getOrInsert(this.#shortest, from, () => new Map<number, number>());
    return getOrInsert(known, pending, () => this.#search(from, pending));
  }

  /** Breadth first, by characters: the bytes of a character after its first one cost nothing. */
  #search(from: AutomatonState, begun: number): number {
    const seen = new Map<number, Set<AutomatonState>>();
    let level = [{ state: from, pending: begun }];
    for (let count = 0; level.length > 0; count++) {
      const next: typeof level = [];
      for (const { state, pending } of level) {
        const states = getOrInsert(seen, pending, () => new Set<AutomatonState>());
        if (states.has(state)) continue;
        states.add(state);
        if (state.complete) return count;
        for (let byte = 0; byte < 0x100; byte++) {
          const to = state.step(byte);
          if (!to) continue;
          const reached = { state: to, pending: escapeAfter(pending, byte) };
          // What costs nothing is looked at on this level, because the loop reaches it.
          if (begins(pending, byte)) next.push(reached);
          else level.push(reached);
        }
      }
      level = next;
    }
    return Number.POSITIVE_INFINITY;
  }
}
