import { getOrInsert } from '../../util/get-or-insert.ts';
import type { AutomatonState, Cursor } from './automaton-state.ts';

/** The inside of a JSON string, or a text without escapes, with a bound on its characters. */
export interface CountedText {
  id: number;
  /** The text by itself, with its end as the end of the text. */
  start: AutomatonState;
  maximum: number;
  isPlain: boolean;
}

/** How many bytes of an escape are still to come, after a backslash and after `\u`. */
const afterBackslash = -1;
const hexDigits = 4;
/** In a text without escapes. */
const never = -2;

/** What is left of an escape after a byte. */
function escapeAfter(pending: number, byte: number): number {
  if (pending === never) return never;
  if (pending === afterBackslash) return byte === 0x75 ? hexDigits : 0;
  if (pending > 0) return pending - 1;
  return byte === 0x5c ? afterBackslash : 0;
}

/** Whether a byte begins a character: neither within an escape nor within a character of UTF-8. */
const begins = (pending: number, byte: number): boolean =>
  (pending === 0 || pending === never) && (byte < 0x80 || byte >= 0xc0);

/**
 * A position within a text of limited length, which knows how many characters come before it. In an automaton that has
 * the count in its states, patterns with many states would have too many. No position is a dead end: a character is
 * only admitted if a text short enough begins so.
 */
class CountedCursor implements Cursor {
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
      const end = classEnd(this.#state, byte);
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
    return this.find(text, text.start, 0, text.isPlain ? never : 0);
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
    return this.#known(from).get(pending) ?? this.#search({ state: from, pending, before: null, count: 0 });
  }

  #known(state: AutomatonState): Map<number, number> {
    return getOrInsert(this.#shortest, state, () => new Map<number, number>());
  }

  /** Breadth first, by characters: the bytes of a character after its first one cost nothing. */
  #search(from: Step): number {
    const seen = new Map<number, Set<AutomatonState>>();
    let level = [from];
    for (let count = 1; level.length > 0; count++) {
      const next: Step[] = [];
      for (const step of level) {
        const { state, pending } = step;
        const states = getOrInsert(seen, pending, () => new Set<AutomatonState>());
        if (states.has(state)) continue;
        states.add(state);
        if (state.complete) {
          // What is known of all states on the way.
          for (let at: Step | null = step; at; at = at.before)
            this.#known(at.state).set(at.pending, step.count - at.count);
          return step.count;
        }
        for (let byte = 0; byte < 0x100; byte = classEnd(state, byte)) {
          const to = state.step(byte);
          if (!to) continue;
          const isNew = begins(pending, byte);
          const after = { state: to, pending: escapeAfter(pending, byte), before: step };
          // What costs nothing is looked at on this level, because the loop reaches it.
          if (isNew) next.push({ ...after, count });
          else level.push({ ...after, count: count - 1 });
        }
      }
      level = next;
    }
    return Number.POSITIVE_INFINITY;
  }
}

/** A state on the way to the end of a text, with the number of characters before it. */
interface Step {
  state: AutomatonState;
  pending: number;
  before: Step | null;
  count: number;
}

/** The first byte that may lead elsewhere: bytes that count, or that belong to an escape, are apart from others. */
function classEnd(state: AutomatonState, byte: number): number {
  let end = state.rangeEnd(byte);
  for (const border of [0x5c, 0x5d, 0x75, 0x76, 0x80, 0xc0]) if (border > byte) end = Math.min(end, border);
  return end;
}
