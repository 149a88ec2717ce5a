import type { ByteGraph } from './byte-graph.ts';

/** Return addresses of the rules that are open, the innermost first. Equal stacks are the same object. */
class Frame {
  static #count = 0;
  readonly id = Frame.#count++;
  readonly node: number;
  readonly parent: Frame | null;
  readonly #children = new Map<number, Frame>();

  constructor(node: number, parent: Frame | null) {
    this.node = node;
    this.parent = parent;
  }

  push(node: number): Frame {
    let child = this.#children.get(node);
    if (!child) {
      child = new Frame(node, this);
      this.#children.set(node, child);
    }
    return child;
  }
}

interface Position {
  first: number;
  last: number;
  next: number;
  stack: Frame;
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

/** States kept before all are forgotten and made again as needed; a state takes a few hundred bytes and up. */
const MAXIMUM_STATES = 20_000;

/** Runs a byte graph: the subset construction, made state by state as texts lead there, and remembered. */
export class Automaton {
  readonly #graph: ByteGraph;
  readonly #maximumStates: number;
  #states = new Map<string, State>();
  #start: State | null = null;

  constructor(graph: ByteGraph, maximumStates = MAXIMUM_STATES) {
    this.#graph = graph;
    this.#maximumStates = maximumStates;
  }

  get start(): AutomatonState {
    this.#start ??= this.stateAfter([{ node: this.#graph.start, stack: new Frame(-1, null) }]);
    return this.#start;
  }

  stateAfter(entries: Iterable<{ node: number; stack: Frame }>): State {
    const { positions, complete, key } = this.#close(entries);
    const known = this.#states.get(key);
    if (known) return known;
    if (this.#states.size >= this.#maximumStates) {
      this.#states = new Map();
      this.#start = null;
    }
    const state = new State(this, positions, complete);
    this.#states.set(key, state);
    return state;
  }

  /** Follows splits, calls and returns until only bytes are left to read. */
  #close(entries: Iterable<{ node: number; stack: Frame }>) {
    const { nodes, exit } = this.#graph;
    const positions: Position[] = [];
    const seen = new Set<string>();
    const keys: string[] = [];
    let complete = false;
    const pending = [...entries];
    for (let entry = pending.pop(); entry; entry = pending.pop()) {
      const { node: index, stack } = entry;
      const name = `${index}.${stack.id}`;
      if (seen.has(name)) continue;
      seen.add(name);
      const node = nodes[index]!;
      if (node.kind === 'bytes') {
        positions.push({ ...node, stack });
        keys.push(name);
      } else if (node.kind === 'split')
        for (const target of node.targets) pending.push({ node: target, stack });
      else if (node.kind === 'call')
        pending.push({ node: node.rule, stack: node.next === exit ? stack : stack.push(node.next) });
      else if (stack.parent) pending.push({ node: stack.node, stack: stack.parent });
      else complete = true;
    }
    return { positions, complete, key: `${keys.sort().join(' ')}${complete ? ' end' : ''}` };
  }
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
      .map(({ next: node, stack }) => ({ node, stack }));
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
