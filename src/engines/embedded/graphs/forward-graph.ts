import type { Dimensions, Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import { Layer } from './layer.ts';
import { outputLogits } from './logit-outputs.ts';
import { normalize } from './normalization.ts';
import { TrainingGraph, tapeShapes } from './training-graph.ts';

/**
 * The forward pass of training. Input: `causal` [time, time], 0 where a position may attend and a large negative number
 * elsewhere. Outputs: `LogitRows` and the tape, the values that the backward pass needs again.
 */
export function forwardGraph(architecture: Architecture): Uint8Array {
  return new ForwardPass(architecture).graph.finish();
}

class ForwardPass extends TrainingGraph {
  constructor(architecture: Architecture) {
    super(architecture);
    const { graph } = this;
    const shapes = tapeShapes(architecture);
    const output = (name: string, value: Value) => graph.output(name, value, shapes.get(name) as Dimensions);
    graph.input('causal', 'float32', ['time', 'time']);
    let state = this.#embed();
    for (let layer = 0; layer < architecture.layers; layer++) {
      const mask = this.isLast(layer) ? this.#visible() : 'causal';
      const parts = new Layer(this.layerParts(layer, mask));
      const tape = parts.forward(state);
      for (const [part, value] of Object.entries(tape)) output(`tape.${layer}.${part}`, value);
      state = parts.next(tape);
    }
    const final = normalize(graph, state, this.parameter('final_norm'), architecture.normEpsilon);
    output('tape.last', state);
    output('tape.finalInverse', final.inverse);
    const logits = graph.op('MatMul', [final.output, this.parameter('head')]);
    outputLogits(graph, logits, ['rows', architecture.vocabularySize]);
  }

  #embed(): Value {
    const { graph } = this;
    const positions = graph.op('Slice', [
      this.parameter('position_embedding'),
      graph.integers(0),
      graph.op('Slice', [this.batchAndTime, graph.integers(1), graph.integers(2)]),
      graph.integers(0),
    ]);
    let sum = graph.op('Add', [
      graph.op('Gather', [this.parameter('token_embedding'), 'ids'], { axis: 0 }),
      positions,
    ]);
    for (let distance = 1; distance <= this.architecture.previousTokens; distance++)
      sum = graph.op('Add', [
        sum,
        graph.op('Gather', [this.parameter(`previous_embedding.${distance}`), `previous.${distance}`], {
          axis: 0,
        }),
      ]);
    return graph.op('Reshape', [sum, graph.integers(-1, this.architecture.width)]);
  }

  /** The rows of the causal mask for the requested positions, [batch, 1, picks, time]. */
  #visible(): Value {
    const { graph } = this;
    return graph.op('Unsqueeze', [
      graph.op('Gather', ['causal', 'positions'], { axis: 0 }),
      graph.integers(1),
    ]);
  }
}
