import { LanguageError } from '../error.ts';
import { type ByteGraph, nodeAt, nodeCount, nodeKind } from './byte-graph.ts';
import { Calls, END_OF_TEXT, nodeKey, type OpenCall, type Returns } from './calls.ts';
import { StateMemory } from './state-memory.ts';

interface Position {
  node: number;
  first: number;
  last: number;
  next: number;
  returns: Returns;
}

/** What may follow a text. Texts with the same continuations share one state, as far as the graph shows. */
export interface AutomatonState {
  /** Whether the text so far is in the language. */
  readonly complete: boolean;
  /** The state after one byte; null if the byte leaves the language. */
  step(byte: number): AutomatonState | null;
  /** The first byte above this one that may lead to another state than this one; 256 if there is none. */
  rangeEnd(byte: number): number;
  /** The only byte that may follow; null if there are several, none, or the text may end here. */
  readonly onlyByte: number | null;
  /** Whether nothing may follow. */
  readonly final: boolean;
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
  #states = new Map<string, State>();
  #afterEntries = new Map<string, State>();
  #visits = 0;
  #limit = maxVisits;
  #start: State | null = null;

  constructor(graph: ByteGraph, memory = new StateMemory(), maximumStates = maxStates) {
    this.#graph = graph;
    this.#maximumStates = maximumStates;
    this.#memory = memory;
  }

  get size(): number {
    return nodeCount(this.#graph.nodes);
  }

  get start(): AutomatonState {
    this.#start ??= this.stateAfter([{ node: this.#graph.start, returns: END_OF_TEXT }]);
    return this.#start;
  }

  /** Nodes visited for the current task. */
  get visits(): number {
    return this.#visits;
  }

  /** Starts a task that may visit `limit` nodes, or continues one that has already visited `spent`. */
  startTask({ spent = 0, limit = maxVisits }: { spent?: number; limit?: number } = {}): void {
    this.#visits = spent;
    this.#limit = limit;
  }

  /** Counts the memory of something that is kept with the states, in positions. */
  countMemory(positions: number): void {
    this.#memory.hold(this, positions);
  }

  stateAfter(entries: readonly { node: number; returns: Returns }[]): State {
    const entryKey = keyOf(entries);
    const reached = this.#afterEntries.get(entryKey);
    if (reached) return reached;
    const { positions, complete } = this.#close(entries);
    const key = `${keyOf(positions)}${complete ? ' end' : ''}`;
    let state = this.#states.get(key);
    if (!state) {
      if (this.#states.size >= this.#maximumStates) this.clear();
      state = new State(this, positions, complete);
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
  }

  /** Follows splits, calls and returns until only nodes that read a byte are left. */
  #close(entries: readonly { node: number; returns: Returns }[]) {
    const { nodes, exit } = this.#graph;
    const found: { node: number; returns: Returns | OpenCall }[] = [];
    const opened = new Map<number, OpenCall>();
    const seen = new Set<number>();
    const pending: { node: number; returns: Returns | OpenCall }[] = [];
    let complete = false;
    const before = this.#visits;
    const reach = (node: number, returns: Returns | OpenCall) => {
      const key = nodeKey(node, returns);
      if (seen.has(key)) return;
      seen.add(key);
      pending.push({ node, returns });
    };
    for (const { node, returns } of entries) reach(node, returns);
    for (let entry = pending.pop(); entry; entry = pending.pop()) {
      this.#countVisit(before);
      const { node, returns } = entry;
      const { kind, a, b } = nodeAt(nodes, node);
      if (kind === nodeKind.bytes) found.push(entry);
      else if (kind === nodeKind.split) for (let at = a; at < b; at++) reach(nodes.targets[at]!, returns);
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
    const positions = found.map(({ node, returns }): Position => {
      const { a: range, b: next } = nodeAt(nodes, node);
      return { node, first: range >> 8, last: range & 0xff, next, returns: this.#calls.close(returns) };
    });
    return { positions, complete };
  }

  /** `before`: number of visits when the current state was begun. */
  #countVisit(before: number): void {
    this.#visits++;
    if (this.#visits > this.#limit) throw tooComplex(this.#limit, 'what may come next');
    if (this.#visits - before > maxVisitsOfState)
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

function keyOf(points: readonly { node: number; returns: Returns }[]): string {
  if (points.length === 1) return String(nodeKey(points[0]!.node, points[0]!.returns));
  return Float64Array.from(new Set(points.map(({ node, returns }) => nodeKey(node, returns))))
    .sort()
    .join(' ');
}

class State implements AutomatonState {
  readonly complete: boolean;
  readonly #automaton: Automaton;
  readonly #positions: readonly Position[];
  /** First byte of each class of bytes but the first. The bytes of a class lead to the same state. */
  #borders: Uint16Array | undefined;
  #next: (State | null)[] = [];

  constructor(automaton: Automaton, positions: readonly Position[], complete: boolean) {
    this.#automaton = automaton;
    this.#positions = positions;
    this.complete = complete;
  }

  step(byte: number): AutomatonState | null {
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
    if (this.complete || candidate === undefined) return null;
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
  }

  #follow(byte: number): State | null {
    const entries = this.#positions
      .filter(({ first, last }) => first <= byte && byte <= last)
      .map(({ next: node, returns }) => ({ node, returns }));
    if (entries.length === 0) return null;
    const reached = this.#automaton.stateAfter(entries);
    return reached.final && !reached.complete ? null : reached;
  }

  rangeEnd(byte: number): number {
    return this.#borderList[this.#classOf(byte)] ?? 0x100;
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
