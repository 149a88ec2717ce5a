import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import type { AutomatonState, Cursor } from './automaton-state.ts';
import { type ByteGraph, countedAt, listAt, nodeAt, nodeCount, nodeKind } from './byte-graph.ts';
import { Calls, END_OF_TEXT, nodeKey, type OpenCall, type Returns } from './calls.ts';
import { type CountedText, CountedTexts } from './counted-text.ts';
import { type DistinctList, DistinctLists } from './distinct-list.ts';
import { StateMemory } from './state-memory.ts';

/** A node to continue at, and the position within its text if it is a list or a counted text. */
interface Entry<R = Returns> {
  node: number;
  returns: R;
  cursor: Cursor | null;
}

interface Position extends Entry {
  first: number;
  last: number;
  next: number;
}

/** The nodes that a task may visit, and those it has visited. Automata of one grammar share it. */
interface Budget {
  visits: number;
  limit: number;
}

/** Most cached states. Beyond it all are dropped, and rebuilt as needed. */
const maxStates = 20_000;
/**
 * Most nodes visited for one set of legal tokens: about 0.2 seconds. Grammars in use need a few hundred; 20,000
 * alternatives with a common beginning need half of the limit.
 */
const maxVisits = 200_000;
/** Most nodes visited for one state: some 20 milliseconds, during which no other request is sampled. */
const maxVisitsOfState = 50_000;

/**
 * Runs a byte graph by subset construction. States are built when a text first reaches them, and cached. All calls of a
 * rule at one position of the text are one call with several return points, so that an ambiguous text costs no more
 * than the sum of its readings' parts (graph-structured stack, Tomita 1985).
 */
export class Automaton {
  readonly #graph: ByteGraph;
  readonly #maximumStates: number;
  readonly #memory: StateMemory;
  readonly #calls = new Calls();
  readonly #distinct = new DistinctLists();
  readonly #counted = new CountedTexts();
  /** The lists and counted texts of the grammar, by their nodes, and the automata of their parts. */
  readonly #lists = new Map<number, DistinctList>();
  readonly #texts = new Map<number, CountedText>();
  readonly #parts: Automaton[] = [];
  readonly #budget: Budget;
  #states = new Map<string, State>();
  #afterEntries = new Map<string, State>();
  #start: State | null = null;

  constructor(
    graph: ByteGraph,
    memory = new StateMemory(),
    maximumStates = maxStates,
    budget: Budget = { visits: 0, limit: maxVisits },
  ) {
    this.#graph = graph;
    this.#maximumStates = maximumStates;
    this.#memory = memory;
    this.#budget = budget;
  }

  get size(): number {
    return nodeCount(this.#graph.nodes);
  }

  get start(): AutomatonState {
    this.#start ??= this.stateAfter([{ node: this.#graph.start, returns: END_OF_TEXT, cursor: null }]);
    return this.#start;
  }

  /** Nodes visited for the current task. */
  get visits(): number {
    return this.#budget.visits;
  }

  /** Starts a task that may visit `limit` nodes, or continues one that has already visited `spent`. */
  startTask({ spent = 0, limit = maxVisits }: { spent?: number; limit?: number } = {}): void {
    this.#budget.visits = spent;
    this.#budget.limit = limit;
  }

  /** Counts the memory of something that is kept with the states, in positions. */
  countMemory(positions: number): void {
    this.#memory.hold(this, positions);
  }

  /** Refuses lists that need more different items than there are. */
  checkLists(): void {
    const { nodes } = this.#graph;
    for (let node = 0; node < this.size; node++) {
      if (nodeAt(nodes, node).kind !== nodeKind.distinct) continue;
      const { item, minimum } = this.#listAt(node);
      const count = this.#distinct.completions(item, minimum);
      if (count < minimum)
        throw new LanguageError(
          'grammar_empty',
          `An array with uniqueItems and minItems ${minimum} can have only ${count} different items. Lower minItems, or allow more items.`,
        );
    }
  }

  stateAfter(entries: readonly Entry[]): State {
    const entryKey = keyOf(entries);
    const reached = this.#afterEntries.get(entryKey);
    if (reached) return reached;
    const { positions, complete } = this.#close(entries);
    const key = `${keyOf(positions)}${complete ? ' end' : ''}`;
    let state = this.#states.get(key);
    if (!state) {
      if (this.#states.size >= this.#maximumStates) this.clear();
      state = new State(this, { positions, complete, entries });
      this.#memory.hold(this, positions.length);
      this.#states.set(key, state);
    }
    this.#memory.hold(this, entries.length);
    this.#afterEntries.set(entryKey, state);
    return state;
  }

  /** Drops all cached states. They are rebuilt when needed. */
  clear(): void {
    this.#memory.release(this);
    for (const state of this.#states.values()) state.clear();
    this.#states = new Map();
    this.#afterEntries = new Map();
    this.#start = null;
    this.#calls.clear();
    this.#distinct.clear();
    this.#counted.clear();
    for (const part of this.#parts) part.clear();
  }

  #listAt(node: number): DistinctList {
    return getOrInsert(this.#lists, node, () => {
      const { item, separator, ...bounds } = listAt(this.#graph.nodes, node);
      return { id: node, item: this.#startOf(item), separator: this.#startOf(separator), ...bounds };
    });
  }

  #textAt(node: number): CountedText {
    return getOrInsert(this.#texts, node, () => {
      const { body, maximum } = countedAt(this.#graph.nodes, node);
      return { id: node, start: this.#startOf(body), maximum };
    });
  }

  /** Before a part of the grammar, in an automaton of its own. */
  #startOf(start: number): AutomatonState {
    const part = new Automaton({ ...this.#graph, start }, this.#memory, this.#maximumStates, this.#budget);
    this.#parts.push(part);
    return part.start;
  }

  /** Follows splits, calls and returns until only nodes that read a byte are left. */
  #close(entries: readonly Entry[]) {
    const { nodes, exit } = this.#graph;
    const found: Entry<Returns | OpenCall>[] = [];
    const opened = new Map<number, OpenCall>();
    const seen = new Set<number | string>();
    const pending: Entry<Returns | OpenCall>[] = [];
    let complete = false;
    const before = this.#budget.visits;
    const reach = (node: number, returns: Returns | OpenCall, cursor: Cursor | null = null) => {
      const key = cursor ? `${nodeKey(node, returns)}/${cursor.id}` : nodeKey(node, returns);
      if (seen.has(key)) return;
      seen.add(key);
      pending.push({ node, returns, cursor });
    };
    for (const { node, returns, cursor } of entries) reach(node, returns, cursor);
    for (let entry = pending.pop(); entry; entry = pending.pop()) {
      this.#countVisit(before);
      const { node, returns } = entry;
      const { kind, a, b } = nodeAt(nodes, node);
      if (kind === nodeKind.bytes) found.push(entry);
      else if (kind === nodeKind.distinct || kind === nodeKind.counted) {
        const cursor =
          entry.cursor ??
          (kind === nodeKind.distinct
            ? this.#distinct.start(this.#listAt(node))
            : this.#counted.start(this.#textAt(node)));
        found.push({ node, returns, cursor });
        if (cursor.mayEnd) reach(b, returns);
      } else if (kind === nodeKind.split) for (let at = a; at < b; at++) reach(nodes.targets[at]!, returns);
      else if (kind === nodeKind.call) {
        const [rule, next] = [a, b];
        let call = opened.get(rule);
        if (!call) {
          call = this.#calls.open();
          opened.set(rule, call);
          reach(rule, call);
        }
        if (next === exit) call.tailCalls.push(returns);
        else call.returnPoints.push({ node: next, returns });
        if (call.returned) reach(next, returns);
      } else {
        for (const point of returns.returnPoints) reach(point.node, point.returns);
        if (returns.open) {
          returns.returned = true;
          for (const tail of returns.tailCalls) reach(exit, tail);
        } else if (returns.end) complete = true;
      }
    }
    const positions: Position[] = [];
    for (const { node, returns: open, cursor } of found) {
      const { a: range, b: next } = nodeAt(nodes, node);
      const returns = this.#calls.close(open);
      if (!cursor) positions.push({ node, first: range >> 8, last: range & 0xff, next, returns, cursor });
      else
        for (const [first, last] of cursor.ranges)
          positions.push({ node, first, last, next: node, returns, cursor });
    }
    return { positions, complete };
  }

  /** `before`: number of visits when the current state was begun. */
  #countVisit(before: number): void {
    const { limit } = this.#budget;
    const visits = ++this.#budget.visits;
    if (visits > limit) throw tooComplex(limit, 'what may come next');
    if (visits - before > maxVisitsOfState)
      throw tooComplex(maxVisitsOfState, 'what may follow one character');
  }
}

function tooComplex(steps: number, what: string): LanguageError {
  return new LanguageError(
    'grammar_too_complex',
    `The grammar needs more than ${steps} steps to find ${what}. Make alternatives differ earlier, and nest fewer ` +
      'repetitions of parts that may be empty.',
  );
}

function keyOf(points: readonly Entry[]): string {
  if (points.some(({ cursor }) => cursor)) {
    const keys = points.map(({ node, returns, cursor }) => `${nodeKey(node, returns)}/${cursor?.id}`);
    return [...new Set(keys)].sort().join(' ');
  }
  if (points.length === 1) return String(nodeKey(points[0]!.node, points[0]!.returns));
  return Float64Array.from(new Set(points.map(({ node, returns }) => nodeKey(node, returns))))
    .sort()
    .join(' ');
}

class State implements AutomatonState {
  readonly complete: boolean;
  readonly isUncertain: boolean;
  readonly #automaton: Automaton;
  readonly #positions: readonly Position[];
  /** The entries that the positions follow from, if some of them are within lists; else none. */
  readonly #entries: readonly Entry[];
  readonly #isPrecise: boolean;
  #relaxed: AutomatonState | undefined;
  /** First byte of each class of bytes but the first. The bytes of a class lead to the same state. */
  #borders: Uint16Array | undefined;
  #next: (State | null)[] = [];

  constructor(
    automaton: Automaton,
    {
      positions,
      complete,
      entries,
    }: { positions: readonly Position[]; complete: boolean; entries: readonly Entry[] },
  ) {
    this.#automaton = automaton;
    this.#positions = positions;
    this.complete = complete;
    this.#isPrecise = positions.some(({ cursor }) => cursor?.isPrecise);
    this.isUncertain = entries.some(({ cursor }) => cursor?.isUncertain);
    this.#entries = this.#isPrecise ? entries : [];
  }

  get relaxed(): AutomatonState {
    if (!this.#isPrecise) return this;
    this.#relaxed ??= this.#automaton.stateAfter(
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

  #follow(byte: number): State | null {
    const entries: Entry[] = [];
    for (const { first, last, next, returns, cursor } of this.#positions) {
      if (byte < first || byte > last) continue;
      if (!cursor) entries.push({ node: next, returns, cursor });
      else for (const after of cursor.step(byte)) entries.push({ node: next, returns, cursor: after });
    }
    if (entries.length === 0) return null;
    const reached = this.#automaton.stateAfter(entries);
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
