import type { NormName, Projection } from '../checkpoint/tensors.ts';
import type { Value } from '../onnx/graph.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import { Layer } from './layer.ts';
import { Norm } from './normalization.ts';
import { TrainingGraph, tapeOf, tapeShapes } from './training-graph.ts';

/**
 * The backward pass of training. Inputs: the tape; `logits_gradient`, dLoss/dlogits [rows, vocabulary]; and `sources`
 * [tokens], for each position 1 + its row, or 0. Outputs: the gradient of each tensor under `gradientName`, that of
 * `position_embedding` only for the batch's `time` positions; and in place of those of the tables that are looked up by
 * token, `embedding_gradient` [tokens, width], the gradient of the looked-up rows: see `addOutputs`.
 */
export function backwardGraph(architecture: Architecture): Uint8Array {
  return new BackwardPass(architecture).graph.finish();
}

/** The output that is a tensor's gradient. */
export const gradientName = (tensor: string) => `gradient.${tensor}`;

class BackwardPass extends TrainingGraph {
  constructor(architecture: Architecture) {
    super(architecture);
    const { graph } = this;
    for (const [name, shape] of tapeShapes(architecture)) graph.input(name, 'float32', shape);
    graph.input('sources', 'int64', ['tokens']);
    const slope = graph.input('logits_gradient', 'float32', ['rows', this.architecture.vocabularySize]);
    const norm = new Norm(graph, {
      gain: this.parameter('final_norm'),
      epsilon: architecture.normEpsilon,
      keepGradient: (gradient) => this.#output('final_norm', gradient),
      isFused: true,
    });
    const [last, inverse] = ['tape.last', 'tape.finalInverse'];
    this.#output('head', this.matmul(norm.outputOf(last, inverse), slope, { transposeLeft: true }));
    const fromHead = this.matmul(slope, this.parameter('head'), { transposeRight: true });
    let gradient = norm.backward(fromHead, last, inverse);
    for (let layer = this.architecture.layers - 1; layer >= 0; layer--)
      gradient = this.#layerBackward(layer, gradient);
    this.#embedBackward(gradient);
  }

  #layerBackward(layer: number, gradient: Value): Value {
    const gradients = new Map<string, Value>();
    const parts = this.layerParts(layer, 'no mask', gradients);
    const input = new Layer(parts).backward(gradient, tapeOf(layer));
    const gradientsOf = (...names: (Projection | NormName)[]) =>
      names.map((name) => gradients.get(name) as Value);
    const packed = this.graph.op('Concat', gradientsOf('q_proj', 'k_proj', 'v_proj'), { axis: 1 });
    const outputs = {
      mlp_down: gradientsOf('down_proj')[0],
      mlp_up: gradientsOf('up_proj')[0],
      mlp_norm: gradientsOf('post_attention_layernorm')[0],
      attention_output: gradientsOf('o_proj')[0],
      query_key_value: packed,
      attention_norm: gradientsOf('input_layernorm')[0],
    };
    for (const [part, value] of Object.entries(outputs))
      this.#output(`layers.${layer}.${part}`, value as Value);
    return input;
  }

  #output(tensor: string, gradient: Value): void {
    const shape = tensorShapes(this.architecture).find(({ name }) => name === tensor);
    if (!shape) throw new Error(`the architecture has no tensor ${tensor}`);
    this.graph.output(gradientName(tensor), gradient, shape.dimensions);
  }

  #embedBackward(gradient: Value): void {
    const { graph } = this;
    const { width } = this.architecture;
    const shape = graph.op('Concat', [this.batchAndTime, graph.integers(width)], { axis: 0 });
    const byPosition = graph.op('ReduceSum', [graph.op('Reshape', [gradient, shape]), graph.integers(0)], {
      keepdims: 0,
    });
    graph.output(gradientName('position_embedding'), byPosition, ['time', width]);
    graph.output('embedding_gradient', gradient, ['tokens', width]);
  }
}
