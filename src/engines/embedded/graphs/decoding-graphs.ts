import type { Value } from '../onnx/graph.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import { DecodingGraph } from './decoding-graph.ts';
import { outputLogits } from './logit-outputs.ts';

/**
 * The graphs of a model whose parameters are all trained, with its weights. Every output row has the same bits whatever
 * else is in the batch: projections are matrix products over a flat list of tokens, and attention does not depend on it
 * either.
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
