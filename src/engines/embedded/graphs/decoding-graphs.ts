import type { Value } from '../onnx/graph.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import { DecodingGraph } from './decoding-graph.ts';
import { outputLogits } from './logit-outputs.ts';

/**
 * The graphs of a model whose parameters are all trained, with its weights. Every output row has the same bits whatever
 * else is in the batch: projections are matrix products over a flat list of tokens, and attention does not depend on it
 * either.
 *
 * Attention reads keys and values by position from the cache, also for the tokens being computed. Each head of each
 * token is a product of its own, of one row, because ONNX Runtime rounds single rows differently from several; it also
 * multiplies them without first packing the keys and values, which would copy the cache in every step. The softmax is
 * exp(scores - max), and its sum is a matrix product: that accumulates along positions, and masked positions add exact
 * zeros, while the grouping of a reduction would depend on the width. So attention rounds in the same way whatever else
 * is in the batch, however a sequence was cut into chunks and however wide the cache is. This holds for more than one
 * head, of a width that is a multiple of 4.
 */
class TrainedGraph extends DecodingGraph {
  readonly #weights: Float32Array;

  constructor(architecture: Architecture, weights: Float32Array) {
    super(architecture);
    this.#weights = weights;
  }

  protected embed(): Value {
    const { graph } = this;
    const look = (table: string, ids: Value) => graph.op('Gather', [this.#weight(table), ids], { axis: 0 });
    graph.input('positions', 'int64', ['tokens']);
    let sum = graph.op('Add', [look('token_embedding', 'ids'), look('position_embedding', 'positions')]);
    for (let distance = 1; distance <= this.architecture.previousTokens; distance++) {
      graph.input(`previous.${distance}`, 'int64', ['tokens']);
      sum = graph.op('Add', [sum, look(`previous_embedding.${distance}`, `previous.${distance}`)]);
    }
    return sum;
  }

  protected gain(layer: number | null, norm: 'attention' | 'mlp' | 'final'): Value {
    return this.#weight(layer === null ? 'final_norm' : `layers.${layer}.${norm}_norm`);
  }

  protected project(layer: number, normed: Value): Value {
    return this.#multiply(normed, `layers.${layer}.query_key_value`);
  }

  /**
   * The values that the heads mix. `rows` [tokens] has each token's index in the padded [batch * steps] layout. Heads
   * that share keys and values are the `sharers` neighbouring ones. The query is divided by the root of the head width
   * already.
   */
  protected mix(): Value {
    const { graph } = this;
    const { heads, keyValueHeads, headWidth } = this.architecture;
    const sharers = heads / keyValueHeads;
    graph.input('query', 'float32', ['batch', 'steps', keyValueHeads, sharers, 1, headWidth]);
    graph.input('key', 'float32', ['batch', 1, keyValueHeads, 1, 'width', headWidth]);
    graph.input('value', 'float32', ['batch', 1, keyValueHeads, 1, 'width', headWidth]);
    graph.input('mask', 'float32', ['batch', 'steps', 1, 1, 1, 'width']);
    graph.input('halves', 'float32', ['width', 1]);
    graph.input('rows', 'int64', ['tokens']);
    const similarity = graph.contribOp('FusedMatMul', ['query', 'key'], { transB: 1 });
    const scores = graph.op('Add', [similarity, 'mask']);
    const largest = graph.op('ReduceMax', [scores, graph.integers(-1)], { keepdims: 1 });
    const likelihood = graph.op('Exp', [graph.op('Sub', [scores, largest])]);
    // All rows of this one are multiplied at once. A factor other than 1 selects the kernel for which that makes no
    // difference to the rounding; the halves cancel it.
    const sum = graph.contribOp('FusedMatMul', [likelihood, 'halves'], { alpha: { float: 2 } });
    const mixed = graph.op('Div', [graph.op('MatMul', [likelihood, 'value']), sum]);
    const padded = graph.op('Reshape', [mixed, graph.integers(-1, heads * headWidth)]);
    return graph.op('Gather', [padded, 'rows'], { axis: 0 });
  }

  protected attend(layer: number, mixed: Value): Value {
    return this.#multiply(mixed, `layers.${layer}.attention_output`);
  }

  protected expand(layer: number, normed: Value): Value {
    const hidden = this.graph.op('Relu', [this.#multiply(normed, `layers.${layer}.mlp_up`)]);
    return this.#multiply(this.graph.op('Mul', [hidden, hidden]), `layers.${layer}.mlp_down`);
  }

  protected finish(normed: Value): void {
    const logits = this.#multiply(normed, 'head');
    outputLogits(this.graph, logits, ['outputs', this.architecture.vocabularySize]);
  }

  #multiply(states: Value, weight: string): Value {
    return this.graph.op('MatMul', [states, this.#weight(weight)]);
  }

  #weight(name: string): Value {
    const tensor = tensorShapes(this.architecture).find((shape) => shape.name === name);
    if (!tensor) throw new Error(`the architecture has no tensor ${name}`);
    const data = this.#weights.subarray(tensor.offset, tensor.offset + tensor.size);
    return this.graph.weight(tensor.dimensions, data, name);
  }
}

/** The graphs in the order in which a step runs them: up to the first attention, then one for each layer. */
export function decodingGraphs(architecture: Architecture, weights: Float32Array): Uint8Array[] {
  const layers = Array.from({ length: architecture.layers }, (_, layer) =>
    new TrainedGraph(architecture, weights).proceed(layer),
  );
  return [new TrainedGraph(architecture, weights).begin(), ...layers];
}
