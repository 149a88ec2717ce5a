import type { AutomatonState } from './automaton-state.ts';
import { type ByteGraph, nodeCount } from './byte-graph.ts';
import { END_OF_TEXT } from './calls.ts';
import { Closure, type Entry, keyOf } from './closure.ts';
import { StateMemory } from './state-memory.ts';
import { SubsetState } from './subset-state.ts';
import { Visits } from './visits.ts';

/** Most cached states. Beyond it all are dropped, and rebuilt as needed. */
const maxStates = 20_000;

/**
 * Runs a byte graph by subset construction. States are built when a text first reaches them, and cached. Within the
 * cache, equal sets of positions are the same state.
 */
export class Automaton {
  /** Of the current task, also in the automata of parts. */
  readonly visits: Visits;
  readonly #graph: ByteGraph;
  readonly #maximumStates: number;
  readonly #memory: StateMemory;
  readonly #closure: Closure;
  /** The automata of the items of lists and of counted texts. */
  readonly #parts: Automaton[] = [];
  #states = new Map<string, SubsetState>();
  #afterEntries = new Map<string, SubsetState>();
  #start: SubsetState | null = null;

  constructor(
    graph: ByteGraph,
    memory = new StateMemory(),
    maximumStates = maxStates,
    visits = new Visits(),
  ) {
    this.visits = visits;
    this.#graph = graph;
    this.#maximumStates = maximumStates;
    this.#memory = memory;
    this.#closure = new Closure(graph, visits, (node) => this.#startOfPart(node));
  }

  get size(): number {
    return nodeCount(this.#graph.nodes);
  }

  get start(): AutomatonState {
    this.#start ??= this.stateAfter([{ node: this.#graph.start, returns: END_OF_TEXT, cursor: null }]);
    return this.#start;
  }

  /** Counts the memory of something that is kept with the states, in positions. */
  countMemory(positions: number): void {
    this.#memory.hold(this, positions);
  }

  /** Refuses lists that need more different items than there are. */
  checkLists(): void {
    this.#closure.checkLists();
  }

  stateAfter(entries: readonly Entry[]): SubsetState {
    const entryKey = keyOf(entries);
    const reached = this.#afterEntries.get(entryKey);
    if (reached) return reached;
    const { positions, complete } = this.#closure.positionsAfter(entries);
    const key = `${keyOf(positions)}${complete ? ' end' : ''}`;
    let state = this.#states.get(key);
    if (!state) {
      if (this.#states.size >= this.#maximumStates) this.clear();
      state = new SubsetState(this, { positions, complete, entries });
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
    this.#closure.clear();
    for (const part of this.#parts) part.clear();
  }

  #startOfPart(start: number): AutomatonState {
    const part = new Automaton({ ...this.#graph, start }, this.#memory, this.#maximumStates, this.visits);
    this.#parts.push(part);
    return part.start;
  }
}
