import type { ByteNode } from './byte-graph.ts';

/** Nodes of a graph in memory that threads share, so that a graph built in one is used in another without a copy. */
export interface PackedNodes {
  /** Of each node three numbers: its kind, and two that depend on it. */
  table: Int32Array;
  /** The targets of all splits. */
  targets: Int32Array;
}

export const nodeKind = {
  /** The first and the last byte in one number, `first << 8 | last`; the next node. */
  bytes: 0,
  /** Where its targets begin and end. */
  split: 1,
  /** The rule; the next node. */
  call: 2,
  return: 3,
} as const;

const numbersOfNode = 3;

export const nodeCount = ({ table }: PackedNodes): number => table.length / numbersOfNode;

export function nodeAt({ table }: PackedNodes, index: number): { kind: number; a: number; b: number } {
  const at = index * numbersOfNode;
  return { kind: table[at]!, a: table[at + 1]!, b: table[at + 2]! };
}

export function packNodes(nodes: readonly ByteNode[]): PackedNodes {
  const targetCount = nodes.reduce(
    (sum, node) => (node.kind === 'split' ? sum + node.targets.length : sum),
    0,
  );
  const table = shared(nodes.length * numbersOfNode);
  const targets = shared(targetCount);
  let used = 0;
  const split = (led: readonly number[]) => {
    const from = used;
    targets.set(led, from);
    used += led.length;
    return [nodeKind.split, from, used];
  };
  for (const [index, node] of nodes.entries()) table.set(numbersOf(node, split), index * numbersOfNode);
  return { table, targets };
}

function numbersOf(node: ByteNode, split: (targets: readonly number[]) => number[]): number[] {
  switch (node.kind) {
    case 'bytes':
      return [nodeKind.bytes, (node.first << 8) | node.last, node.next];
    case 'split':
      return split(node.targets);
    case 'call':
      return [nodeKind.call, node.rule, node.next];
    case 'return':
      return [nodeKind.return, 0, 0];
  }
}

const shared = (length: number) =>
  new Int32Array(new SharedArrayBuffer(length * Int32Array.BYTES_PER_ELEMENT));
