import { Graph, type Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import { normalize } from './normalization.ts';

/**
 * The part of a model between two attentions, as a graph of sampling: one up to the first attention, then one from each
 * layer's attention to the next layer's, then one to the logits. Between them the caller writes the new keys and values
 * into its cache, which is read in place and never copied.
 */
export abstract class DecodingGraph {
  readonly graph = new Graph();
  protected readonly architecture: Architecture;

  constructor(architecture: Architecture) {
    this.architecture = architecture;
  }

  /** The states of the tokens `ids` [tokens]. */
  protected abstract embed(): Value;
  /** Query, key and value of a layer side by side, for normed states. */
  protected abstract project(layer: number, normed: Value): Value;
  /**
   * The values that the heads mix, [tokens, heads * head width]. Heads that share keys and values are neighbours. The
   * query is divided by the root of the head width already. The input `rows` [tokens] has each token's index in the padded
   * [batch, steps] layout.
   */
  protected abstract mix(): Value;
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
    const middle = graph.op('Add', ['state_in', this.attend(layer, this.mix())]);
    const normed = this.#norm(middle, this.gain(layer, 'mlp'));
    return graph.op('Add', [middle, this.expand(layer, normed)]);
  }

  #norm(state: Value, gain: Value): Value {
    return normalize(this.graph, state, gain, this.architecture.normEpsilon).output;
  }
}
