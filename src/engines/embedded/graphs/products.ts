import { type Projection, projectionShape } from '../checkpoint/tensors.ts';
import type { Graph, Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import type { LoraTargets } from './layer-graphs.ts';

/** The matrix products of a decoding graph, W x + scale * B (A x), on states in an order of their own. */
export interface Products {
  /** From states [tokens, width] to that order, and back. */
  take(states: Value, width: number): Value;
  give(states: Value): Value;
  /** The projection of states in that order. `prefix` precedes the names of its weights. */
  multiply(name: Projection, states: Value, prefix?: string): Value;
  /** The logits [outputs, vocabulary] of states [outputs, width]. */
  logits(states: Value): Value;
}

/** Ranks of a LoRA matrix A that are multiplied at once: see `PackedProducts`. */
export const ranksTogether = 16;

/**
 * Products whose weights are a part of the session, packed once for the processor's kernels. A row of states gives the
 * same bits in any run of two rows or more: the kernels of ONNX Runtime (MLAS) add up the numbers of a row in an order
 * that depends on the size of the right operand alone. When that is not packed and has more than 16 columns, the order
 * also depends on how threads share the columns; therefore A is multiplied in parts: input `<name>.A`, [parts, at most
 * 16, inputs]. The input `<name>.B` is [outputs, rank], and `lora_scale` [].
 */
export class PackedProducts implements Products {
  readonly #graph: Graph;
  readonly #architecture: Architecture;

  constructor(graph: Graph, architecture: Architecture) {
    this.#graph = graph;
    this.#architecture = architecture;
    graph.input('lora_scale', 'float32', []);
  }

  take(states: Value): Value {
    return states;
  }

  give(states: Value): Value {
    return states;
  }

  multiply(name: Projection, states: Value, prefix = ''): Value {
    const graph = this.#graph;
    const shape = projectionShape(this.#architecture, name);
    const [outputs, inputs] = shape;
    const product = this.#packed(`${prefix}${name}`, shape, states);
    // Each projection has a rank of its own: 0 if the adapter leaves it as it is.
    const a = graph.input(`${prefix}${name}.A`, 'float32', [`${name} parts`, `${name} part`, inputs]);
    const b = graph.input(`${prefix}${name}.B`, 'float32', [outputs, `${name} rank`]);
    const apart = graph.contribOp('FusedMatMul', [states, a], { transB: 1, alpha: { float: 1 } });
    const ordered = graph.op('Transpose', [apart], { perm: [1, 0, 2] });
    const ranks = graph.op('Flatten', [ordered], { axis: 1 });
    const scaled = graph.op('Mul', [ranks, 'lora_scale']);
    return graph.op('Gemm', [scaled, b, product], { transB: 1 });
  }

  logits(states: Value): Value {
    const { vocabularySize, width } = this.#architecture;
    return this.#packed('head', [vocabularySize, width], states);
  }

  #packed(name: string, [outputs, inputs]: readonly [number, number], states: Value): Value {
    const weight = this.#graph.externalWeight(name, [outputs, inputs], outputs * inputs * 4);
    return this.#graph.op('Gemm', [states, weight], { transB: 1 });
  }
}

/**
 * Products whose weights are inputs, [outputs, inputs], the left operands of states in columns. ONNX Runtime packs the
 * right operand of a product into other memory in each run, but reads the left one in place.
 */
export class InPlaceProducts implements Products {
  readonly #graph: Graph;
  readonly #architecture: Architecture;
  readonly #lora: LoraTargets;

  constructor(graph: Graph, architecture: Architecture, lora: LoraTargets) {
    this.#graph = graph;
    this.#architecture = architecture;
    this.#lora = lora;
  }

  /**
   * ONNX Runtime would make a transpose part of the product that it leads to, if nothing stood between them, and only plain
   * products have the kernel for a single column.
   */
  take(states: Value, width: number): Value {
    return this.#graph.op('Reshape', [this.give(states), this.#graph.integers(width, -1)]);
  }

  give(states: Value): Value {
    return this.#graph.op('Transpose', [states], { perm: [1, 0] });
  }

  multiply(name: Projection, states: Value, prefix = ''): Value {
    const graph = this.#graph;
    const [outputs, inputs] = projectionShape(this.#architecture, name);
    const weight = graph.input(`${prefix}${name}`, 'float32', [outputs, inputs]);
    const product = graph.op('MatMul', [weight, states]);
    const { targets, scale } = this.#lora;
    if (!targets.includes(name)) return product;
    const a = graph.input(`${prefix}${name}.A`, 'float32', ['rank', inputs]);
    const b = graph.input(`${prefix}${name}.B`, 'float32', [outputs, 'rank']);
    return graph.op('Gemm', [b, graph.op('MatMul', [a, states]), product], { alpha: { float: scale } });
  }

  logits(states: Value): Value {
    const { vocabularySize, width } = this.#architecture;
    const head = this.#graph.input('head', 'float32', [vocabularySize, width]);
    return this.give(this.#graph.op('MatMul', [head, this.take(states, width)]));
  }
}
