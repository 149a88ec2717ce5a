import { LanguageError } from '../error.ts';
import type { Expression, GrammarSource } from './expression.ts';
import { utf8Sequences } from './utf8-sequences.ts';

/**
 * A pushdown automaton over bytes. A text is in the language if it leads from `start` to `exit`. Nodes are identified by
 * their index.
 */
export interface ByteGraph {
  nodes: PackedNodes;
  start: number;
  /** The one `return` node: the end of a rule, or the end of the text if no rule is open. */
  exit: number;
}

/** About 50 MB of states at worst. Schemas in use stay far below. */
export const maxNodes = 200_000;
/** Most nodes of a repeated body that is copied. For these few, a call costs more. */
const maxInline = 4;

/** Builds the graph of a grammar from back to front, because each part needs the node that follows it. */
export function buildByteGraph(source: GrammarSource): ByteGraph {
  const builder = new GraphBuilder(source.rules);
  const start = builder.build(source.start, builder.exit);
  builder.buildRules();
  return { start, nodes: builder.pack(), exit: builder.exit };
}

class GraphBuilder {
  readonly exit = 0;
  /** Three numbers for each node, as in `PackedNodes`. A split has an index of `#splits`. */
  readonly #table: number[] = [nodeKind.return, 0, 0];
  /** The targets of each split, in the order of their nodes. */
  readonly #splits: number[][] = [];
  readonly #rules: ReadonlyMap<string, Expression>;
  readonly #entries = new Map<string, number>();
  readonly #unbuilt: { body: Expression; targets: number[] }[] = [];

  constructor(rules: ReadonlyMap<string, Expression>) {
    this.#rules = rules;
  }

  /** Builds the rules called so far. Not at the call, because rules may call each other to any depth. */
  buildRules(): void {
    for (let rule = this.#unbuilt.pop(); rule; rule = this.#unbuilt.pop())
      rule.targets.push(this.build(rule.body, this.exit));
  }

  build(expression: Expression, next: number): number {
    switch (expression.kind) {
      case 'literal':
        return Buffer.from(expression.text, 'utf8').reduceRight(
          (following, byte) => this.#add(nodeKind.bytes, (byte << 8) | byte, following),
          next,
        );
      case 'characters':
        return this.#split(
          expression.ranges
            .flatMap(utf8Sequences)
            .map((bytes) =>
              bytes.reduceRight(
                (following, [first, last]) => this.#add(nodeKind.bytes, (first << 8) | last, following),
                next,
              ),
            ),
        );
      case 'sequence':
        return expression.parts.reduceRight((following, part) => this.build(part, following), next);
      case 'choice':
        return this.#split(expression.alternatives.map((alternative) => this.build(alternative, next)));
      case 'repeat':
        return this.#repeat(expression, next);
      case 'rule':
        return this.#add(nodeKind.call, this.#entry(expression.name), next);
      case 'distinct': {
        const { item, separator, minimum, maximum } = expression;
        const list = [this.build(item, this.exit), this.build(separator, this.exit), minimum, maximum ?? -1];
        return this.#add(nodeKind.distinct, this.#splits.push(list) - 1, next);
      }
      case 'counted': {
        const { body, maximum, isPlain } = expression;
        const text = [this.build(body, this.exit), maximum, isPlain ? 1 : 0];
        return this.#add(nodeKind.counted, this.#splits.push(text) - 1, next);
      }
    }
  }

  #repeat({ body, minimum, maximum }: Extract<Expression, { kind: 'repeat' }>, next: number): number {
    const once = this.#repeatable(body, Math.max(minimum, maximum ?? 0));
    let entry = next;
    if (maximum === null) {
      const targets = [next];
      entry = this.#addSplit(targets);
      targets.push(this.build(body, entry));
    } else for (let count = minimum; count < maximum; count++) entry = this.#split([next, once(entry)]);
    for (let count = 0; count < minimum; count++) entry = once(entry);
    return entry;
  }

  /** Returns a function that puts a body before a node: as a copy if it is short, else as a call of one shared copy. */
  #repeatable(body: Expression, copies: number): (next: number) => number {
    if (copies > 1) {
      const before = this.#count;
      const entry = this.build(body, this.exit);
      if (this.#count === before) return (next) => next;
      if (this.#count - before > maxInline) return (next) => this.#add(nodeKind.call, entry, next);
    }
    return (next) => this.build(body, next);
  }

  #split(targets: number[]): number {
    return targets.length === 1 ? targets[0]! : this.#addSplit(targets);
  }

  #entry(name: string): number {
    const known = this.#entries.get(name);
    if (known !== undefined) return known;
    const body = this.#rules.get(name);
    if (!body) throw new LanguageError('grammar_invalid', `The grammar has no rule ${name}, but calls it.`);
    const targets: number[] = [];
    const index = this.#addSplit(targets);
    this.#entries.set(name, index);
    this.#unbuilt.push({ body, targets });
    return index;
  }

  /** The graph in shared memory. */
  pack(): PackedNodes {
    const table = shared(this.#table);
    let used = 0;
    for (let at = 0; at < table.length; at += numbersOfNode)
      if (withTargets.has(table[at]!)) {
        const { length } = this.#splits[table[at + 1]!]!;
        table[at + 1] = used;
        if (table[at] === nodeKind.split) table[at + 2] = used + length;
        used += length;
      }
    return { table, targets: shared(this.#splits.flat()) };
  }

  get #count(): number {
    return this.#table.length / numbersOfNode;
  }

  #addSplit(targets: number[]): number {
    return this.#add(nodeKind.split, this.#splits.push(targets) - 1, 0);
  }

  #add(kind: number, a: number, b: number): number {
    if (this.#count >= maxNodes)
      throw new LanguageError(
        'grammar_too_large',
        `The grammar needs more than ${maxNodes} nodes. Lower its repetition counts (maxLength, maxItems, {m,n}).`,
      );
    return this.#table.push(kind, a, b) / numbersOfNode - 1;
  }
}

/** The nodes of a graph in shared memory, so that other threads use it without a copy. */
interface PackedNodes {
  /** Three numbers per node: its kind, and two that depend on the kind. */
  table: Int32Array;
  targets: Int32Array;
}

export const nodeKind = {
  /** First and last byte in one number, `first << 8 | last`; the next node. */
  bytes: 0,
  /** Start and end of its targets in `targets`. */
  split: 1,
  /** The rule; the next node. */
  call: 2,
  return: 3,
  /** Its list, in `targets` from there on: see `listAt`; the next node. */
  distinct: 4,
  /** Its text, in `targets` from there on: see `countedAt`; the next node. */
  counted: 5,
} as const;

const withTargets = new Set<number>([nodeKind.split, nodeKind.distinct, nodeKind.counted]);

const numbersOfNode = 3;

export const nodeCount = ({ table }: PackedNodes): number => table.length / numbersOfNode;

export function nodeAt({ table }: PackedNodes, index: number): { kind: number; a: number; b: number } {
  const at = index * numbersOfNode;
  return { kind: table[at]!, a: table[at + 1]!, b: table[at + 2]! };
}

/** A list of items that differ: the first nodes of an item and of a separator, and the bounds of its length. */
export function listAt({ table, targets }: PackedNodes, index: number) {
  const at = table[index * numbersOfNode + 1]!;
  const [item, separator, minimum, maximum] = targets.subarray(at, at + 4);
  return {
    item: item!,
    separator: separator!,
    minimum: minimum!,
    maximum: maximum! < 0 ? Number.POSITIVE_INFINITY : maximum!,
  };
}

/** A text of limited length: its first node, and its most characters. */
export function countedAt({ table, targets }: PackedNodes, index: number) {
  const at = table[index * numbersOfNode + 1]!;
  return { body: targets[at]!, maximum: targets[at + 1]!, isPlain: targets[at + 2] === 1 };
}

function shared(numbers: readonly number[]): Int32Array {
  const array = new Int32Array(new SharedArrayBuffer(numbers.length * Int32Array.BYTES_PER_ELEMENT));
  array.set(numbers);
  return array;
}
