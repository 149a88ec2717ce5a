import { EngineError } from '../../engine-error.ts';
import type { ByteGraph } from './byte-graph.ts';
import { Calls, END_OF_TEXT, type OpenCall, placeKey, type Returns } from './calls.ts';
import { StateMemory } from './state-memory.ts';

interface Position {
  node: number;
  first: number;
  last: number;
  next: number;
  returns: Returns;
}

/** What may follow some text: two texts with the same future lead to the same state as far as the graph shows. */
export interface AutomatonState {
  /** The text so far is in the language. */
  readonly complete: boolean;
  /** Follows one byte; null where it leaves the language. */
  step(byte: number): AutomatonState | null;
  /** The only byte that may follow, or null where there are several, none, or the text may end here. */
  readonly onlyByte: number | null;
  /** Nothing may follow. */
  readonly final: boolean;
}

/** States kept before all are forgotten and made again as needed. */
const MAXIMUM_STATES = 20_000;
/**
 * Nodes visited for one set of legal tokens: about 0.2 seconds, in which nobody else is sampled for. Grammars in use
 * need some hundred; 20,000 alternatives with one beginning need half of it.
 */
const MAXIMUM_VISITS = 200_000;

/**
 * Runs a byte graph: the subset construction, made state by state as texts lead there, and remembered. All calls of
 * a rule at one place of the text are one call that returns to several places, so that what can be read in many ways
 * costs no more than the sum of its parts (Tomita 1985, the graph-structured stack).
 */
export class Automaton {
  readonly #graph: ByteGraph;
  readonly #maximumStates: number;
  readonly #memory: StateMemory;
  readonly #calls = new Calls();
  #states = new Map<string, State>();
  #afterEntries = new Map<string, State>();
  #visits = 0;
  #start: State | null = null;

  constructor(graph: ByteGraph, memory = new StateMemory(), maximumStates = MAXIMUM_STATES) {
    this.#graph = graph;
    this.#maximumStates = maximumStates;
    this.#memory = memory;
  }

  /** Nodes of its graph. */
  get size(): number {
    return this.#graph.nodes.length;
  }

  get start(): AutomatonState {
    this.#start ??= this.stateAfter([{ node: this.#graph.start, returns: END_OF_TEXT }]);
    return this.#start;
  }

  /** Begins a task of its own: what may be visited is counted from here. */
  renewEffort(): void {
    this.#visits = 0;
  }

  stateAfter(entries: readonly { node: number; returns: Returns }[]): State {
    const entryKey = keyOf(entries);
    const reached = this.#afterEntries.get(entryKey);
    if (reached) return reached;
    const { positions, complete } = this.#close(entries);
    const key = `${keyOf(positions)}${complete ? ' end' : ''}`;
    let state = this.#states.get(key);
    if (!state) {
      if (this.#states.size >= this.#maximumStates) this.forget();
      state = new State(this, positions, complete);
      this.#memory.hold(this, positions.length);
      this.#states.set(key, state);
    }
    this.#memory.hold(this, entries.length);
    this.#afterEntries.set(entryKey, state);
    return state;
  }

  /** Lets go of all states but those in use; they are made again as needed. */
  forget(): void {
    this.#memory.release(this);
    this.#states = new Map();
    this.#afterEntries = new Map();
    this.#start = null;
    this.#calls.forget();
  }

  /** Follows splits, calls and returns until only bytes are left to read. */
  #close(entries: readonly { node: number; returns: Returns }[]) {
    const { nodes, exit } = this.#graph;
    const found: { node: number; returns: Returns | OpenCall }[] = [];
    const opened = new Map<number, OpenCall>();
    const seen = new Set<number>();
    const pending: { node: number; returns: Returns | OpenCall }[] = [];
    let complete = false;
    const reach = (node: number, returns: Returns | OpenCall) => {
      const key = placeKey(node, returns);
      if (seen.has(key)) return;
      seen.add(key);
      pending.push({ node, returns });
    };
    for (const { node, returns } of entries) reach(node, returns);
    for (let entry = pending.pop(); entry; entry = pending.pop()) {
      this.#countVisit();
      const { node: index, returns } = entry;
      const node = nodes[index]!;
      if (node.kind === 'bytes') found.push(entry);
      else if (node.kind === 'split') for (const target of node.targets) reach(target, returns);
      else if (node.kind === 'call') {
        let call = opened.get(node.rule);
        if (!call) {
          call = this.#calls.open();
          opened.set(node.rule, call);
          reach(node.rule, call);
        }
        if (node.next === exit) call.tails.push(returns);
        else call.places.push({ node: node.next, returns });
        if (call.returned) reach(node.next, returns);
      } else {
        for (const place of returns.places) reach(place.node, place.returns);
        if (returns.open) {
          returns.returned = true;
          for (const tail of returns.tails) reach(exit, tail);
        } else if (returns.end) complete = true;
      }
    }
    const positions = found.map(({ node: index, returns }): Position => {
      const node = nodes[index]!;
      if (node.kind !== 'bytes') throw new Error('only bytes are left to read');
      const { first, last, next } = node;
      return { node: index, first, last, next, returns: this.#calls.close(returns) };
    });
    return { positions, complete };
  }

  #countVisit(): void {
    if (++this.#visits > MAXIMUM_VISITS)
      throw new EngineError(
        'grammar_too_complex',
        `the grammar needs more than ${MAXIMUM_VISITS} steps to tell what may come next: ` +
          'make its alternatives differ earlier, and nest fewer repetitions of what may be empty',
      );
  }
}

function keyOf(places: readonly { node: number; returns: Returns }[]): string {
  if (places.length === 1) return String(placeKey(places[0]!.node, places[0]!.returns));
  return Float64Array.from(new Set(places.map(({ node, returns }) => placeKey(node, returns))))
    .sort()
    .join(' ');
}

class State implements AutomatonState {
  readonly complete: boolean;
  readonly #automaton: Automaton;
  readonly #positions: readonly Position[];
  /** Where the bytes fall into classes that lead to the same state: the first byte of each class but the first. */
  #borders: Uint16Array | undefined;
  readonly #next: (State | null)[] = [];

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

  #follow(byte: number): State | null {
    const entries = this.#positions
      .filter(({ first, last }) => first <= byte && byte <= last)
      .map(({ next: node, returns }) => ({ node, returns }));
    if (entries.length === 0) return null;
    const reached = this.#automaton.stateAfter(entries);
    return reached.final && !reached.complete ? null : reached;
  }

  #classOf(byte: number): number {
    this.#borders ??= Uint16Array.from(
      new Set(this.#positions.flatMap(({ first, last }) => [first, last + 1])),
    ).sort();
    let byteClass = 0;
    while (byteClass < this.#borders.length && this.#borders[byteClass]! <= byte) byteClass++;
    return byteClass;
  }
}
