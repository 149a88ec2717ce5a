import {
  type NormName,
  normWidth,
  type Projection,
  projectionShape,
  sublayerNorms,
} from '../checkpoint/tensors.ts';
import { Graph, type Value } from '../onnx/graph.ts';
import type { Device } from '../runtime.ts';
import { type Architecture, isGated, kindOf } from '../weights/architecture.ts';
import { applyGate } from './gate.ts';
import { outputLogits } from './logit-outputs.ts';
import { gainOf, normalize, scaled } from './normalization.ts';
import type { Products } from './products.ts';
import { outputChoices } from './token-choices.ts';

/** Prefix of the weights of the next layer, whose attention or convolution follows. */
export const nextLayer = 'next.';

/** Numbers that the kernels of ONNX Runtime (MLAS) always add up together. */
const addedTogether = 128;

/**
 * Where a model's attention is computed. `flat`: by WebAssembly, token by token, in slots with room for the whole context.
 * `padded`: by the graph, in a batch as wide as the longest sequence, which costs small models more than their products do
 * and is faster for long prompts of large ones. Their graphs choose tokens too, because logits of large vocabularies are
 * slow to copy.
 */
export type AttentionKind = 'flat' | 'padded';

interface DecodingOptions {
  device: Device;
  attention: AttentionKind;
  products: (graph: Graph) => Products;
}

/**
 * Whether the graphs choose tokens, with the input `inverse_temperature` [outputs, 1] and the inputs of `outputChoices`.
 * That needs float64, which WebGPU does not have. Otherwise they output all logits.
 */
export const choosesTokens = ({ device, attention }: Omit<DecodingOptions, 'products'>): boolean =>
  device === 'cpu' && attention === 'padded';

/**
 * The part of a model between two attentions, with a LoRA adapter if it has one, as a graph of sampling. Between them the
 * caller writes the new keys and values into its cache, which is read in place and never copied. A convolution stands in
 * for an attention. What the caller computes of either is the input `mixed`: see `#mixed`. Weights are named as in
 * `layerForwardGraph`; the projections before an attention or a convolution, and their norms, begin with `next.`. Further
 * ones: `head` [vocabulary, width], `norm` [width], `positions` [tokens, 1], and the tables `cosines` and `sines`
 * [context, headWidth / 2].
 *
 * `Products` makes the matrix products.
 */
class DecodingGraph {
  readonly #graph = new Graph();
  readonly #architecture: Architecture;
  readonly #options: DecodingOptions;
  readonly #products: Products;

  constructor(architecture: Architecture, options: DecodingOptions) {
    this.#architecture = architecture;
    this.#options = options;
    this.#products = options.products(this.#graph);
  }

  /** From the first states of tokens, the input `state_in` [tokens, width], to `packed`: see `#outputProjections`. */
  begin(): Uint8Array {
    this.#outputProjections(
      this.#graph.input('state_in', 'float32', ['tokens', this.#architecture.width]),
      0,
    );
    return this.#graph.finish();
  }

  /**
   * Attention or convolution and MLP of a layer; outputs `state` and `packed` for the next layer, or after the last what
   * `#finish` outputs.
   */
  proceed(layer: number): Uint8Array {
    const graph = this.#graph;
    const { layers, width } = this.#architecture;
    const isLast = layer + 1 === layers;
    const input = graph.input('state_in', 'float32', ['rows', width]);
    const { attention, mlp } = sublayerNorms(this.#architecture);
    const added = (value: Value, name: NormName | null) =>
      scaled(graph, name === null ? value : this.#norm(value, name), this.#architecture.residualScale);
    const middle = graph.op('Add', [input, added(this.#mixed(layer), attention.after)]);
    const expanded = this.#expand(this.#norm(middle, mlp.before));
    const state = graph.op('Add', [middle, added(expanded, mlp.after)]);
    // The factor of the logits is a part of the gain, as in training.
    if (isLast) this.#finish(this.#norm(state, 'norm', this.#architecture.logitScale));
    else {
      graph.output('state', state, ['tokens', width]);
      this.#outputProjections(state, layer + 1);
    }
    return graph.finish();
  }

  /** `packed`: query, key and value of a layer side by side, or the three parts of a convolution. */
  #outputProjections(state: Value, layer: number): void {
    const { width, heads, keyValueHeads, headWidth } = this.#architecture;
    const { before } = sublayerNorms(this.#architecture).attention;
    const normed = this.#norm(state, `${nextLayer}${before}`);
    const isConvolution = kindOf(this.#architecture, layer) === 'convolution';
    const packed = isConvolution ? this.#linear('in_proj', normed, width, nextLayer) : this.#project(normed);
    const size = isConvolution ? 3 * width : (heads + 2 * keyValueHeads) * headWidth;
    this.#graph.output('packed', packed, ['tokens', size]);
  }

  /** The projection of states [tokens, `inputs`]. */
  #linear(name: Projection, states: Value, inputs: number, prefix = ''): Value {
    const products = this.#products;
    return products.give(products.multiply(name, products.take(states, inputs), prefix));
  }

  /**
   * What a layer's attention or convolution adds to the states. What the caller computes is `mixed` [rows, values]: the
   * values that the heads mix, or C * y of a convolution.
   */
  #mixed(layer: number): Value {
    const { width, heads, headWidth } = this.#architecture;
    const given = (values: number) => this.#graph.input('mixed', 'float32', ['rows', values]);
    if (kindOf(this.#architecture, layer) === 'convolution')
      return this.#linear('out_proj', given(width), width);
    const values = heads * headWidth;
    return this.#linear('o_proj', this.#options.attention === 'flat' ? given(values) : this.#mix(), values);
  }

  #norm(state: Value, name: string, factor = 1): Value {
    const gain = scaled(this.#graph, this.#gain(name, this.#architecture.width), factor);
    return normalize(this.#graph, state, gain, this.#architecture.normEpsilon).output;
  }

  #gain(name: string, size: number): Value {
    return gainOf(this.#graph, this.#architecture, this.#products.vector(name, size));
  }

  /** Query, key and value of the next layer side by side, for normed states. */
  #project(normed: Value): Value {
    const graph = this.#graph;
    const { heads, keyValueHeads, headWidth } = this.#architecture;
    if (this.#architecture.positions !== 'learned') {
      graph.input('positions', 'int64', ['tokens', 1]);
      for (const table of ['cosines', 'sines']) graph.input(table, 'float32', ['context', headWidth / 2]);
    }
    const products = this.#products;
    const states = products.take(normed, this.#architecture.width);
    if (this.#architecture.positions === 'learned')
      return products.give(products.multiplyAll(['q_proj', 'k_proj', 'v_proj'], states, nextLayer));
    const linear = (name: Projection) => products.give(products.multiply(name, states, nextLayer));
    return graph.op(
      'Concat',
      [
        this.#rotate(this.#biased('q_proj', linear('q_proj')), 'q_norm', heads),
        this.#rotate(this.#biased('k_proj', linear('k_proj')), 'k_norm', keyValueHeads),
        this.#biased('v_proj', linear('v_proj')),
      ],
      { axis: 1 },
    );
  }

  /**
   * The values that the heads mix, [tokens, heads * head width]. The tokens and heads that share keys and values are rows
   * of the same product. The query has the factor of the scores already. The input `rows` has each
   * token's index in the padded [batch, steps] layout.
   */
  #mix(): Value {
    const graph = this.#graph;
    const { heads, keyValueHeads, headWidth } = this.#architecture;
    const sharers = heads / keyValueHeads;
    graph.input('query', 'float32', ['batch', 'queries', keyValueHeads * headWidth]);
    for (const name of ['key', 'value'])
      graph.input(name, 'float32', ['batch', keyValueHeads, 'width', headWidth]);
    graph.input('mask', 'float32', ['batch', 1, 'queries', 'width']);
    const apart = graph.op('Reshape', [
      this.#attend(),
      graph.integers(-1, sharers, keyValueHeads, headWidth),
    ]);
    const picked = graph.op('Gather', [apart, graph.input('rows', 'int64', ['rows'])], { axis: 0 });
    const ordered = graph.op('Transpose', [picked], { perm: [0, 2, 1, 3] });
    return graph.op('Reshape', [ordered, graph.integers(-1, heads * headWidth)]);
  }

  #attend(): Value {
    const graph = this.#graph;
    const { keyValueHeads, headWidth } = this.#architecture;
    const swap = (value: Value) => graph.op('Transpose', [value], { perm: [0, 2, 1, 3] });
    const split = graph.integers(0, 0, keyValueHeads, headWidth);
    if (this.#options.device === 'cpu') {
      const [first, ...others] = this.#queryParts();
      let mask: Value = 'mask';
      for (const part of others) {
        const inputs = [swap(graph.op('Reshape', [part, split])), 'key'];
        mask = graph.op('Add', [
          graph.contribOp('FusedMatMul', inputs, { transB: 1, alpha: { float: 1 } }),
          mask,
        ]);
      }
      return graph.contribOp('MultiHeadAttention', [first, 'key', 'value', '', '', mask], {
        num_heads: keyValueHeads,
        scale: { float: 1 },
      });
    }
    // That operator is wrong on WebGPU from 32 queries on (onnxruntime-node 1.30.0).
    const apart = graph.op('Reshape', ['query', split]);
    const keys = graph.op('Transpose', ['key'], { perm: [0, 1, 3, 2] });
    const scores = graph.op('Add', [graph.op('MatMul', [swap(apart), keys]), 'mask']);
    return swap(graph.op('MatMul', [graph.op('Softmax', [scores], { axis: -1 }), 'value']));
  }

  /**
   * Splits `query` into queries whose scores add up to its scores. MLAS adds up a product of more than 128 numbers in
   * parts, whose length depends on how threads share the positions. With zeros in place of all but 128 elements, the
   * scores are the same.
   */
  #queryParts(): [Value, ...Value[]] {
    const graph = this.#graph;
    const { keyValueHeads, headWidth } = this.#architecture;
    const parts = Array.from({ length: Math.ceil(headWidth / addedTogether) }, (_, part) => {
      const of = (element: number) => Math.floor((element % headWidth) / addedTogether);
      const width = keyValueHeads * headWidth;
      const factors = Float32Array.from({ length: width }, (_, element) => (of(element) === part ? 1 : 0));
      return graph.op('Mul', ['query', graph.weight([width], factors)]);
    });
    const [first, ...others] = parts;
    return first === undefined || others.length === 0 ? ['query'] : [first, ...others];
  }

  /** What a layer's MLP adds to the states. */
  #expand(normed: Value): Value {
    const graph = this.#graph;
    const products = this.#products;
    const states = products.take(normed, this.#architecture.width);
    if (!isGated(this.#architecture)) {
      const hidden = graph.op('Relu', [products.multiply('up_proj', states)]);
      return products.give(products.multiply('down_proj', graph.op('Mul', [hidden, hidden])));
    }
    const [input, up] = this.#gateAndUp(states);
    // With the factor 1, this operator is the SiLU: x * sigmoid(x).
    const gate =
      this.#architecture.mlp === 'gated-silu'
        ? graph.contribOp('QuickGelu', [input], { alpha: { float: 1 } })
        : applyGate(graph, this.#architecture, input).output;
    const hidden = graph.op('Mul', [gate, up()]);
    return products.give(products.multiply('down_proj', hidden));
  }

  /** What the gate of an MLP takes, and what it multiplies. */
  #gateAndUp(states: Value): [Value, () => Value] {
    const products = this.#products;
    if (!this.#architecture.joinedGate)
      return [products.multiply('gate_proj', states), () => products.multiply('up_proj', states)];
    const joined = products.multiply('gate_up_proj', states);
    const halves = { axis: products.axis, num_outputs: 2 };
    const [input, up] = this.#graph.ops('Split', [joined], halves, 2) as [Value, Value];
    return [input, () => up];
  }

  /** Makes what is needed of the logits of normed states [outputs, width] the outputs. */
  #finish(normed: Value): void {
    const graph = this.#graph;
    const { vocabularySize } = this.#architecture;
    const logitsOf = (states: Value) => this.#products.logits(states);
    if (!choosesTokens(this.#options)) {
      outputLogits(graph, logitsOf(normed), ['outputs', vocabularySize]);
      return;
    }
    graph.input('inverse_temperature', 'float32', ['outputs', 1]);
    outputChoices(graph, logitsOf(graph.op('Mul', [normed, 'inverse_temperature'])), vocabularySize);
  }

  #biased(name: Projection, states: Value): Value {
    if (!this.#architecture.attentionBias) return states;
    const [outputs] = projectionShape(this.#architecture, name);
    return this.#graph.op('Add', [states, this.#products.vector(`${nextLayer}${name}.bias`, outputs)]);
  }

  /** Norms each head, if the architecture does, and rotates it by its token's position. */
  #rotate(states: Value, norm: 'q_norm' | 'k_norm', heads: number): Value {
    const graph = this.#graph;
    const { headWidth, queryKeyNorm, normEpsilon } = this.#architecture;
    const width = heads * headWidth;
    let normed = states;
    if (queryKeyNorm) {
      const size = normWidth(this.#architecture, norm);
      const gain = this.#gain(`${nextLayer}${norm}`, size);
      const apart = graph.op('Reshape', [states, graph.integers(-1, headWidth)]);
      normed = graph.op('SimplifiedLayerNormalization', [apart, gain], {
        axis: -1,
        epsilon: { float: normEpsilon },
      });
    }
    if (this.#architecture.positions === 'learned') return normed;
    const rows = graph.op('Reshape', [normed, graph.integers(-1, 1, width)]);
    const rotated = graph.contribOp('RotaryEmbedding', [rows, 'positions', 'cosines', 'sines'], {
      interleaved: 0,
    });
    return graph.op('Reshape', [rotated, graph.integers(-1, width)]);
  }
}

/** `part`: up to the first attention or convolution, or from that layer's to the next one. */
export function decodingGraph(
  architecture: Architecture,
  options: DecodingOptions,
  part: 'first' | number,
): Uint8Array {
  const graph = new DecodingGraph(architecture, options);
  return part === 'first' ? graph.begin() : graph.proceed(part);
}
