import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import type { AutomatonState, Cursor } from './automaton-state.ts';
import { type ByteGraph, countedAt, listAt, nodeAt, nodeCount, nodeKind } from './byte-graph.ts';
import { Calls, nodeKey, type OpenCall, type Returns } from './calls.ts';
import { type CountedText, CountedTexts } from './counted-text.ts';
import { type DistinctList, DistinctLists } from './distinct-list.ts';
import type { Visits } from './visits.ts';

/** A node to continue at, and the position within its text if it is a list or a counted text. */
export interface Entry<R = Returns> {
  node: number;
  returns: R;
  cursor: Cursor | null;
}

export interface Position extends Entry {
  first: number;
  last: number;
  next: number;
}

/**
 * The positions of a graph that read the next byte. All calls of a rule at one position of the text are one call with
 * several return points, so that an ambiguous text costs no more than the sum of its readings' parts (graph-structured
 * stack, Tomita 1985).
 */
export class Closure {
  readonly #graph: ByteGraph;
  readonly #visits: Visits;
  /** The state before a part of the grammar, in an automaton of its own. */
  readonly #startOf: (node: number) => AutomatonState;
  readonly #calls = new Calls();
  readonly #distinct = new DistinctLists();
  readonly #counted = new CountedTexts();
  /** The lists and counted texts of the grammar, by their nodes. */
  readonly #lists = new Map<number, DistinctList>();
  readonly #texts = new Map<number, CountedText>();

  constructor(graph: ByteGraph, visits: Visits, startOf: (node: number) => AutomatonState) {
    this.#graph = graph;
    this.#visits = visits;
    this.#startOf = startOf;
  }

  /** Follows splits, calls and returns until only nodes that read a byte are left. */
  positionsAfter(entries: readonly Entry[]): { positions: readonly Position[]; complete: boolean } {
    const { nodes, exit } = this.#graph;
    const found: Entry<Returns | OpenCall>[] = [];
    const opened = new Map<number, OpenCall>();
    const seen = new Set<number | string>();
    const pending: Entry<Returns | OpenCall>[] = [];
    let complete = false;
    const before = this.#visits.count;
    const reach = (node: number, returns: Returns | OpenCall, cursor: Cursor | null = null) => {
      const key = cursor ? `${nodeKey(node, returns)}/${cursor.id}` : nodeKey(node, returns);
      if (seen.has(key)) return;
      seen.add(key);
      pending.push({ node, returns, cursor });
    };
    for (const { node, returns, cursor } of entries) reach(node, returns, cursor);
    for (let entry = pending.pop(); entry; entry = pending.pop()) {
      this.#visits.add(before);
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

  /** Refuses lists that need more different items than there are. */
  checkLists(): void {
    const { nodes } = this.#graph;
    for (let node = 0; node < nodeCount(nodes); node++) {
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

  clear(): void {
    this.#calls.clear();
    this.#distinct.clear();
    this.#counted.clear();
  }

  #listAt(node: number): DistinctList {
    return getOrInsert(this.#lists, node, () => {
      const { item, separator, ...bounds } = listAt(this.#graph.nodes, node);
      return { id: node, item: this.#startOf(item), separator: this.#startOf(separator), ...bounds };
    });
  }

  #textAt(node: number): CountedText {
    return getOrInsert(this.#texts, node, () => {
      const { body, ...bounds } = countedAt(this.#graph.nodes, node);
      return { id: node, start: this.#startOf(body), ...bounds };
    });
  }
}

/** A name of the entries that does not depend on their order. */
export function keyOf(points: readonly Entry[]): string {
  if (points.some(({ cursor }) => cursor)) {
    const keys = points.map(({ node, returns, cursor }) => `${nodeKey(node, returns)}/${cursor?.id}`);
    return [...new Set(keys)].sort().join(' ');
  }
  if (points.length === 1) return String(nodeKey(points[0]!.node, points[0]!.returns));
  return Float64Array.from(new Set(points.map(({ node, returns }) => nodeKey(node, returns))))
    .sort()
    .join(' ');
}
