import { finalNormTensor, headTensor, layerTensors } from '../checkpoint/tensors.ts';
import { Graph, type Value } from '../onnx/graph.ts';
import type { Architecture, TensorShape } from '../weights/architecture.ts';
import { outputLogits } from './logit-outputs.ts';
import { normalize } from './normalization.ts';

/** The part of a tiny model between two attentions, with its weights, on a flat list of tokens. */
class TinyGraph {
  readonly #graph = new Graph();
  readonly #architecture: Architecture;
  readonly #weights: TinyWeights;

  constructor(architecture: Architecture, weights: TinyWeights) {
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
    const middle = graph.op('Add', [input, this.#multiply(mixed, this.#layer(layer, 'o_proj'))]);
    const normed = this.#norm(middle, this.#layer(layer, 'post_attention_layernorm'));
    const hidden = graph.op('Relu', [this.#multiply(normed, this.#layer(layer, 'up_proj'))]);
    const added = this.#multiply(graph.op('Mul', [hidden, hidden]), this.#layer(layer, 'down_proj'));
    const state = graph.op('Add', [middle, added]);
    if (layer + 1 < layers) {
      graph.output('state', state, ['tokens', width]);
      this.#project(layer + 1, state);
    } else {
      const logits = this.#multiply(this.#norm(state, [finalNormTensor(this.#architecture)]), [headTensor]);
      outputLogits(graph, logits, ['tokens', vocabularySize]);
    }
    return graph.finish();
  }

  /** Outputs `packed` [tokens, 3 * width]: query, key and value of a layer side by side. */
  #project(layer: number, state: Value): void {
    const normed = this.#norm(state, this.#layer(layer, 'input_layernorm'));
    const packed = this.#multiply(normed, this.#layer(layer, 'q_proj', 'k_proj', 'v_proj'));
    this.#graph.output('packed', packed, ['tokens', 3 * this.#architecture.width]);
  }

  #input(name: string): Value {
    return this.#graph.input(name, 'float32', ['tokens', this.#architecture.width]);
  }

  #norm(state: Value, gain: readonly string[]): Value {
    return normalize(this.#graph, state, this.#weight(gain), this.#architecture.normEpsilon).output;
  }

  #multiply(states: Value, weight: readonly string[]): Value {
    return this.#graph.op('Gemm', [states, this.#weight(weight)], { transB: 1 });
  }

  /** The names of tensors of a layer. */
  #layer(layer: number, ...parts: string[]): string[] {
    const tensors = layerTensors(this.#architecture, layer);
    return parts.map((part) => tensors.find((tensor) => tensor.part === part)?.name as string);
  }

  /** Tensors with the same inputs, which follow each other in the vector, as one matrix. */
  #weight(names: readonly string[]): Value {
    const { vector, shapes } = this.#weights;
    const tensors = names.map((name) => shapes.find((shape) => shape.name === name) as TensorShape);
    const [first] = tensors as [TensorShape];
    const size = tensors.reduce((sum, tensor) => sum + tensor.size, 0);
    const rows = tensors.reduce((sum, { dimensions }) => sum + (dimensions[0] as number), 0);
    const data = vector.subarray(first.offset, first.offset + size);
    return this.#graph.weight([rows, ...first.dimensions.slice(1)], data, first.name);
  }
}

/** All parameters of a model, flat. */
interface TinyWeights {
  vector: Float32Array;
  shapes: readonly TensorShape[];
}

/** The graphs in the order in which a step runs them: up to the first attention, then one for each layer. */
export function tinyDecodingGraphs(architecture: Architecture, weights: TinyWeights): Uint8Array[] {
  const layers = Array.from({ length: architecture.layers }, (_, layer) =>
    new TinyGraph(architecture, weights).proceed(layer),
  );
  return [new TinyGraph(architecture, weights).begin(), ...layers];
}
