import { Graph, type Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import { normalize } from './normalization.ts';

/**
 * The part of a model between two attentions, as a graph of sampling: one up to the first attention, then one from each
 * layer's attention to the next layer's, then one to the logits. Between them the caller writes the new keys and values
 * into its cache, which is read in place and never copied.
 *
 * Attention reads keys and values by position from the cache, also for the tokens being computed. Each head of each
 * token is a product of its own, of one row, because ONNX Runtime rounds single rows differently from several; it also
 * multiplies them without first packing the keys and values, which would copy the cache in every step. The softmax is
 * exp(scores - max), and its sum is a matrix product: that accumulates along positions, and masked positions add exact
 * zeros, while the grouping of a reduction would depend on the width. So attention rounds in the same way whatever else
 * is in the batch, however a sequence was cut into chunks and however wide the cache is. This holds for more than one
 * head, of a width that is a multiple of 4.
 */
export abstract class DecodingGraph {
  readonly graph = new Graph();
  protected readonly architecture: Architecture;

  constructor(architecture: Architecture) {
    this.architecture = architecture;
  }

  /** The states of the tokens `ids` [tokens] at `positions` [tokens]. */
  protected abstract embed(): Value;
  /** Query, key and value of a layer side by side, for normed states. */
  protected abstract project(layer: number, normed: Value): Value;
  /** What a layer's attention adds to the states, for the mixed values of its heads [tokens, heads * head width]. */
  protected abstract attend(layer: number, mixed: Value): Value;
  /** What a layer's MLP adds to the states. */
  protected abstract expand(layer: number, normed: Value): Value;
  /** Makes what is needed of the logits of normed states [outputs, width] the outputs. */
  protected abstract finish(normed: Value): void;
  /** The gain of a norm. `layer` is null for the one before the head. */
  protected abstract gain(layer: number | null, norm: 'attention' | 'mlp' | 'final'): Value;

  /** Outputs the tokens' `state` [tokens, width] and `packed`: what `project` gives for the first layer. */
  begin(): Uint8Array {
    this.graph.input('ids', 'int64', ['tokens']);
    this.graph.input('positions', 'int64', ['tokens']);
    this.#outputProjections(0, this.embed());
    return this.graph.finish();
  }

  /** Attention and MLP of a layer; outputs `state` and `packed` for the next layer, or after the last those of `finish`. */
  proceed(layer: number): Uint8Array {
    const state = this.#finishLayer(layer);
    if (layer + 1 < this.architecture.layers) this.#outputProjections(layer + 1, state);
    else {
      this.graph.input('picked', 'int64', ['outputs']);
      const picked = this.graph.op('Gather', [state, 'picked'], { axis: 0 });
      this.finish(this.#norm(picked, this.gain(null, 'final')));
    }
    return this.graph.finish();
  }

  #outputProjections(layer: number, state: Value): void {
    const { width, heads, keyValueHeads, headWidth } = this.architecture;
    const packed = this.project(layer, this.#norm(state, this.gain(layer, 'attention')));
    this.graph.output('state', state, ['tokens', width]);
    this.graph.output('packed', packed, ['tokens', (heads + 2 * keyValueHeads) * headWidth]);
  }

  #finishLayer(layer: number): Value {
    const { graph } = this;
    graph.input('state_in', 'float32', ['tokens', this.architecture.width]);
    const middle = graph.op('Add', ['state_in', this.attend(layer, this.#mixValues())]);
    const normed = this.#norm(middle, this.gain(layer, 'mlp'));
    return graph.op('Add', [middle, this.expand(layer, normed)]);
  }

  /**
   * The values that the heads mix. `rows` [tokens] has each token's index in the padded [batch * steps] layout. Heads
   * that share keys and values are the `sharers` neighbouring ones. The query is divided by the root of the head width
   * already.
   */
  #mixValues(): Value {
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

  #norm(state: Value, gain: Value): Value {
    return normalize(this.graph, state, gain, this.architecture.normEpsilon).output;
  }
}
