import { sumOf } from '../../../util/sums.ts';
import { type Projection, projectionShape } from '../checkpoint/tensors.ts';
import type { Graph, Value } from '../onnx/graph.ts';
import { type Architecture, elementsOf } from '../weights/architecture.ts';
import type { LoraTargets } from './layer-graphs.ts';

/** The matrix products of a decoding graph, W x + scale * B (A x), on states in an order of their own. */
export interface Products {
  /** From states [tokens, width] to that order, and back. */
  take(states: Value, width: number): Value;
  give(states: Value): Value;
  /** The axis of a state's values in that order. */
  readonly axis: 0 | 1;
  /** The projection of states in that order. `prefix` precedes the names of its weights. */
  multiply(name: Projection, states: Value, prefix?: string): Value;
  /** The weights of a norm, or a bias. */
  vector(name: string, size: number): Value;
  /** Several projections of the same states side by side. */
  multiplyAll(names: readonly Projection[], states: Value, prefix?: string): Value;
  /** The logits [outputs, vocabulary] of states [outputs, width]. */
  logits(states: Value): Value;
}

/** Ranks of a LoRA matrix A that are multiplied at once: see `PackedProducts`. */
export const ranksTogether = 16;

/**
 * Products whose weights, with norms and biases, are a part of the session, packed once for the processor's kernels. A row
 * of states gives the same bits in any run of two rows or more: the kernels of ONNX Runtime (MLAS) add up the numbers of a
 * row in an order that depends on the size of the right operand alone. If the right operand is not packed and has more
 * than 16 columns, the order also depends on how threads share the columns; therefore A is multiplied in parts: input `<name>.A`, [parts, at most
 * 16, inputs]. The input `<name>.B` is [outputs, rank], and `lora_scale` []. Weights that are all trained have no adapters.
 */
export class PackedProducts implements Products {
  readonly axis = 1;
  /** The session's own weights: under each name the tensors that are joined in it. */
  readonly own = new Map<string, readonly string[]>();
  readonly #graph: Graph;
  readonly #architecture: Architecture;
  readonly #hasAdapters: boolean;

  constructor(graph: Graph, architecture: Architecture, { hasAdapters }: { hasAdapters: boolean }) {
    this.#graph = graph;
    this.#architecture = architecture;
    this.#hasAdapters = hasAdapters;
    if (hasAdapters) graph.input('lora_scale', 'float32', []);
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
    const product = this.#packed([`${prefix}${name}`], shape, states);
    if (!this.#hasAdapters) return product;
    // Each projection has a rank of its own: 0 if the adapter leaves it as it is.
    const a = graph.input(`${prefix}${name}.A`, 'float32', [`${name} parts`, `${name} part`, inputs]);
    const b = graph.input(`${prefix}${name}.B`, 'float32', [outputs, `${name} rank`]);
    const apart = graph.contribOp('FusedMatMul', [states, a], { transB: 1, alpha: { float: 1 } });
    const ordered = graph.op('Transpose', [apart], { perm: [1, 0, 2] });
    const ranks = graph.op('Flatten', [ordered], { axis: 1 });
    const scaled = graph.op('Mul', [ranks, 'lora_scale']);
    return graph.op('Gemm', [scaled, b, product], { transB: 1 });
  }

  multiplyAll(names: readonly Projection[], states: Value, prefix = ''): Value {
    if (this.#hasAdapters)
      return this.#graph.op(
        'Concat',
        names.map((name) => this.multiply(name, states, prefix)),
        { axis: 1 },
      );
    const shapes = names.map((name) => projectionShape(this.#architecture, name));
    const outputs = sumOf(shapes, ([rows]) => rows);
    const parts = names.map((name) => `${prefix}${name}`);
    return this.#packed(parts, [outputs, shapes[0]?.[1] as number], states);
  }

  logits(states: Value): Value {
    const { vocabularySize, width } = this.#architecture;
    return this.#packed(['head'], [vocabularySize, width], states);
  }

  vector(name: string, size: number): Value {
    return this.#own([name], [size]);
  }

  #packed(parts: readonly string[], shape: readonly [number, number], states: Value): Value {
    return this.#graph.op('Gemm', [states, this.#own(parts, shape)], { transB: 1 });
  }

  #own(parts: readonly string[], shape: readonly number[]): Value {
    const name = parts.join('+');
    this.own.set(name, parts);
    return this.#graph.externalWeight(name, shape, elementsOf(shape) * Float32Array.BYTES_PER_ELEMENT);
  }
}

/**
 * Products whose weights are inputs, [outputs, inputs], the left operands of states in columns. ONNX Runtime packs the
 * right operand of a product into other memory in each run, but reads the left one in place.
 */
export class InPlaceProducts implements Products {
  readonly axis = 0;
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

  multiplyAll(names: readonly Projection[], states: Value, prefix = ''): Value {
    return this.#graph.op(
      'Concat',
      names.map((name) => this.multiply(name, states, prefix)),
      { axis: 0 },
    );
  }

  logits(states: Value): Value {
    const { vocabularySize, width } = this.#architecture;
    const head = this.#graph.input('head', 'float32', [vocabularySize, width]);
    return this.give(this.#graph.op('MatMul', [head, this.take(states, width)]));
  }

  vector(name: string, size: number): Value {
    return this.#graph.input(name, 'float32', [size]);
  }
}
