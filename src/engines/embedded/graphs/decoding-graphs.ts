import { Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, tensorShapes } from '../weights/architecture.ts';
import { outputLogits } from './logit-outputs.ts';
import { normalize } from './normalization.ts';

/**
 * The graphs of sampling: one up to the first attention, then one from each layer's attention to the next layer's.
 * Between them the caller writes the new keys and values into its cache, which is read in place and never copied.
 *
 * Every output row has the same bits whatever else is in the batch, however its sequence was cut into chunks and
 * however wide the cache is, for four reasons. Projections are matrix products over a flat list of tokens. Attention
 * reads keys and values by position from the cache, also for the tokens being computed. Each head of each token is a
 * product of its own, of one row, because ONNX Runtime rounds single rows differently from several; it also multiplies
 * them without first packing the keys and values, which would copy the cache in every step. The softmax is
 * exp(scores - max), and its sum is a matrix product: that accumulates along positions, and masked positions add exact
 * zeros, while the grouping of a reduction would depend on the width. All this holds for more than one head, of a width
 * that is a multiple of 4.
 */
class DecodingGraph {
  readonly graph = new Graph();
  readonly #architecture: Architecture;
  readonly #weights: Float32Array;

  constructor(architecture: Architecture, weights: Float32Array) {
    this.#architecture = architecture;
    this.#weights = weights;
  }

  weight(name: string): Value {
    const tensor = tensorShapes(this.#architecture).find((shape) => shape.name === name);
    if (!tensor) throw new Error(`the architecture has no tensor ${name}`);
    const data = this.#weights.subarray(tensor.offset, tensor.offset + tensor.size);
    return this.graph.weight(tensor.dimensions, data, name);
  }

  /** Outputs the state and the packed query, key and value of `layer` for a flat list of tokens. */
  project(layer: number, state: Value): void {
    const { width } = this.#architecture;
    const { output } = normalize(this.graph, state, this.weight(`layers.${layer}.attention_norm`));
    const packed = this.graph.op('MatMul', [output, this.weight(`layers.${layer}.query_key_value`)]);
    this.graph.output('state', state, ['tokens', width]);
    this.graph.output('packed', packed, ['tokens', 3 * width]);
  }

  embed(): Value {
    const { graph } = this;
    const look = (table: Value, ids: Value) => graph.op('Gather', [table, ids], { axis: 0 });
    graph.input('ids', 'int64', ['tokens']);
    graph.input('positions', 'int64', ['tokens']);
    let sum = graph.op('Add', [
      look(this.weight('token_embedding'), 'ids'),
      look(this.weight('position_embedding'), 'positions'),
    ]);
    for (let distance = 1; distance <= this.#architecture.previousTokens; distance++) {
      graph.input(`previous.${distance}`, 'int64', ['tokens']);
      sum = graph.op('Add', [
        sum,
        look(this.weight(`previous_embedding.${distance}`), `previous.${distance}`),
      ]);
    }
    return sum;
  }

  /**
   * Attention and MLP of `layer`. `rows` [tokens] has each token's index in the padded [batch * steps] layout. The query
   * is divided by the root of the head width already.
   */
  finishLayer(layer: number): Value {
    const { graph } = this;
    const { width, heads } = this.#architecture;
    const perHead = headWidth(this.#architecture);
    graph.input('state_in', 'float32', ['tokens', width]);
    graph.input('query', 'float32', ['batch', 'steps', heads, 1, perHead]);
    graph.input('key', 'float32', ['batch', 1, heads, 'width', perHead]);
    graph.input('value', 'float32', ['batch', 1, heads, 'width', perHead]);
    graph.input('mask', 'float32', ['batch', 'steps', 1, 1, 'width']);
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
    const padded = graph.op('Reshape', [mixed, graph.integers(-1, width)]);
    const flat = graph.op('Gather', [padded, 'rows'], { axis: 0 });
    const middle = graph.op('Add', [
      'state_in',
      graph.op('MatMul', [flat, this.weight(`layers.${layer}.attention_output`)]),
    ]);
    const { output } = normalize(graph, middle, this.weight(`layers.${layer}.mlp_norm`));
    const hidden = graph.op('Relu', [graph.op('MatMul', [output, this.weight(`layers.${layer}.mlp_up`)])]);
    const squared = graph.op('Mul', [hidden, hidden]);
    return graph.op('Add', [middle, graph.op('MatMul', [squared, this.weight(`layers.${layer}.mlp_down`)])]);
  }

  head(state: Value): void {
    const { graph } = this;
    graph.input('picked', 'int64', ['outputs']);
    const { output } = normalize(
      graph,
      graph.op('Gather', [state, 'picked'], { axis: 0 }),
      this.weight('final_norm'),
    );
    const logits = graph.op('MatMul', [output, this.weight('head')]);
    outputLogits(graph, logits, ['outputs', this.#architecture.vocabularySize]);
  }
}

/** The graphs in the order in which a step runs them: the embedding, then one per layer, the last with the head. */
export function decodingGraphs(architecture: Architecture, weights: Float32Array): Uint8Array[] {
  const first = new DecodingGraph(architecture, weights);
  first.project(0, first.embed());
  const graphs = [first.graph.finish()];
  for (let layer = 0; layer < architecture.layers; layer++) {
    const next = new DecodingGraph(architecture, weights);
    const state = next.finishLayer(layer);
    if (layer + 1 < architecture.layers) next.project(layer + 1, state);
    else next.head(state);
    graphs.push(next.graph.finish());
  }
  return graphs;
}
