import { Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import { outputLogits } from './logit-outputs.ts';
import { normalize } from './normalization.ts';

/** The part of a tiny model between two attentions, with its weights, on a flat list of tokens. */
class TinyGraph {
  readonly #graph = new Graph();
  readonly #architecture: Architecture;
  readonly #weights: Float32Array;

  constructor(architecture: Architecture, weights: Float32Array) {
    this.#architecture = architecture;
    this.#weights = weights;
  }

  /** From the embedded tokens, the input `state_in` [tokens, width], to the output `packed`: see `#project`. */
  begin(): Uint8Array {
    this.#project(0, this.#input('state_in'));
    return this.#graph.finish();
  }

  /**
   * A layer after its attention: from its input `state_in` and what attention gives, `mixed`, both [tokens, width], to
   * `state` and `packed` for the next layer, or after the last to the logits (see `outputLogits`).
   */
  proceed(layer: number): Uint8Array {
    const { layers, width, vocabularySize } = this.#architecture;
    const graph = this.#graph;
    const [input, mixed] = [this.#input('state_in'), this.#input('mixed')];
    const middle = graph.op('Add', [input, this.#multiply(mixed, `layers.${layer}.attention_output`)]);
    const hidden = graph.op('Relu', [
      this.#multiply(this.#norm(middle, `layers.${layer}.mlp_norm`), `layers.${layer}.mlp_up`),
    ]);
    const added = this.#multiply(graph.op('Mul', [hidden, hidden]), `layers.${layer}.mlp_down`);
    const state = graph.op('Add', [middle, added]);
    if (layer + 1 < layers) {
      graph.output('state', state, ['tokens', width]);
      this.#project(layer + 1, state);
    } else {
      const logits = this.#multiply(this.#norm(state, 'final_norm'), 'head');
      outputLogits(graph, logits, ['tokens', vocabularySize]);
    }
    return graph.finish();
  }

  /** Outputs `packed` [tokens, 3 * width]: query, key and value of a layer side by side. */
  #project(layer: number, state: Value): void {
    const normed = this.#norm(state, `layers.${layer}.attention_norm`);
    const packed = this.#multiply(normed, `layers.${layer}.query_key_value`);
    this.#graph.output('packed', packed, ['tokens', 3 * this.#architecture.width]);
  }

  #input(name: string): Value {
    return this.#graph.input(name, 'float32', ['tokens', this.#architecture.width]);
  }

  #norm(state: Value, gain: string): Value {
    return normalize(this.#graph, state, this.#weight(gain), this.#architecture.normEpsilon).output;
  }

  #multiply(states: Value, weight: string): Value {
    return this.#graph.op('MatMul', [states, this.#weight(weight)]);
  }

  #weight(name: string): Value {
    const tensor = tensorShapes(this.#architecture).find((shape) => shape.name === name);
    if (!tensor) throw new Error(`the architecture has no tensor ${name}`);
    const data = this.#weights.subarray(tensor.offset, tensor.offset + tensor.size);
    return this.#graph.weight(tensor.dimensions, data, name);
  }
}

/** The graphs in the order in which a step runs them: up to the first attention, then one for each layer. */
export function tinyDecodingGraphs(architecture: Architecture, weights: Float32Array): Uint8Array[] {
  const layers = Array.from({ length: architecture.layers }, (_, layer) =>
    new TinyGraph(architecture, weights).proceed(layer),
  );
  return [new TinyGraph(architecture, weights).begin(), ...layers];
}
