import type { AutomatonState } from './automaton-state.ts';
import type { Entry, Position } from './closure.ts';

/** Where a state finds the states after it. */
interface States {
  stateAfter(entries: readonly Entry[]): SubsetState;
}

/** A set of positions as one state. */
export class SubsetState implements AutomatonState {
  readonly complete: boolean;
  readonly isUncertain: boolean;
  readonly #states: States;
  readonly #positions: readonly Position[];
  /** The entries that the positions follow from, if some of them are within lists; else none. */
  readonly #entries: readonly Entry[];
  readonly #isPrecise: boolean;
  #relaxed: AutomatonState | undefined;
  /** First byte of each class of bytes but the first. The bytes of a class lead to the same state. */
  #borders: Uint16Array | undefined;
  #next: (SubsetState | null)[] = [];

  constructor(
    states: States,
    {
      positions,
      complete,
      entries,
    }: { positions: readonly Position[]; complete: boolean; entries: readonly Entry[] },
  ) {
    this.#states = states;
    this.#positions = positions;
    this.complete = complete;
    this.#isPrecise = positions.some(({ cursor }) => cursor?.isPrecise);
    this.isUncertain = entries.some(({ cursor }) => cursor?.isUncertain);
    this.#entries = this.#isPrecise ? entries : [];
  }

  get relaxed(): AutomatonState {
    if (!this.#isPrecise) return this;
    this.#relaxed ??= this.#states.stateAfter(
      this.#entries.map(({ cursor, ...entry }) => ({ ...entry, cursor: cursor?.relaxed ?? null })),
    );
    return this.#relaxed;
  }

  step(byte: number): AutomatonState | null {
    // Each byte leads to a text of its own.
    if (this.#isPrecise) return this.#follow(byte);
    const byteClass = this.#classOf(byte);
    let next = this.#next[byteClass];
    if (next === undefined) {
      next = this.#follow(byte);
      this.#next[byteClass] = next;
    }
    return next;
  }

  get onlyByte(): number | null {
    const candidate = this.#positions[0]?.first;
    if (this.complete || candidate === undefined || this.isUncertain) return null;
    return this.#positions.every(({ first, last }) => first === candidate && last === candidate)
      ? candidate
      : null;
  }

  get final(): boolean {
    return this.#positions.length === 0;
  }

  /** Drops the references to following states, so that keeping this state does not keep all of them. */
  clear(): void {
    this.#next = [];
    this.#relaxed = undefined;
  }

  #follow(byte: number): SubsetState | null {
    const entries: Entry[] = [];
    for (const { first, last, next, returns, cursor } of this.#positions) {
      if (byte < first || byte > last) continue;
      if (!cursor) entries.push({ node: next, returns, cursor });
      else for (const after of cursor.step(byte)) entries.push({ node: next, returns, cursor: after });
    }
    if (entries.length === 0) return null;
    const reached = this.#states.stateAfter(entries);
    return reached.final && !reached.complete && !reached.isUncertain ? null : reached;
  }

  rangeEnd(byte: number): number {
    return this.#isPrecise ? byte + 1 : (this.#borderList[this.#classOf(byte)] ?? 0x100);
  }

  get #borderList(): Uint16Array {
    this.#borders ??= Uint16Array.from(
      new Set(this.#positions.flatMap(({ first, last }) => [first, last + 1])),
    ).sort();
    return this.#borders;
  }

  #classOf(byte: number): number {
    const borders = this.#borderList;
    let byteClass = 0;
    while (byteClass < borders.length && borders[byteClass]! <= byte) byteClass++;
    return byteClass;
  }
}
