import type { Dimensions, Value } from '../onnx/graph.ts';
import { type Architecture, headWidth } from '../weights/architecture.ts';
import { outputLogits } from './logit-outputs.ts';
import { normalize } from './normalization.ts';
import { type LayerTape, TrainingGraph, tapeShapes } from './training-graph.ts';

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
      const { next, tape } = this.#layer(layer, state);
      for (const [part, value] of Object.entries(tape)) output(`tape.${layer}.${part}`, value);
      state = next;
    }
    const final = normalize(graph, state, this.parameter('final_norm'));
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

  #layer(layer: number, input: Value): { next: Value; tape: LayerTape } {
    const { graph } = this;
    const { width, heads } = this.architecture;
    const perHead = headWidth(this.architecture);
    const name = (part: string) => this.parameter(`layers.${layer}.${part}`);
    const attentionNorm = normalize(graph, input, name('attention_norm'));
    const projections = this.projections(layer);
    const byHead = (states: Value, projection: Value, shape: Value) =>
      graph.op('Transpose', [graph.op('Reshape', [graph.op('MatMul', [states, projection]), shape])], {
        perm: [0, 2, 1, 3],
      });
    const everywhere = graph.op('Concat', [this.batchAndTime, graph.integers(heads, perHead)], { axis: 0 });
    const query = byHead(
      this.select(layer, attentionNorm.output),
      projections.query,
      this.queryShape(layer, heads, perHead),
    );
    const key = byHead(attentionNorm.output, projections.key, everywhere);
    const value = byHead(attentionNorm.output, projections.value, everywhere);
    const scores = graph.op('Add', [
      this.matmul(query, key, { transposeRight: true, scale: this.scale }),
      this.isLast(layer) ? this.#visible() : 'causal',
    ]);
    const attention = graph.op('Softmax', [scores], { axis: -1 });
    const mixed = graph.op('Reshape', [
      graph.op('Transpose', [graph.op('MatMul', [attention, value])], { perm: [0, 2, 1, 3] }),
      graph.integers(-1, width),
    ]);
    const middle = graph.op('Add', [
      this.select(layer, input),
      graph.op('MatMul', [mixed, name('attention_output')]),
    ]);
    const mlpNorm = normalize(graph, middle, name('mlp_norm'));
    const hidden = graph.op('Relu', [graph.op('MatMul', [mlpNorm.output, name('mlp_up')])]);
    const squared = graph.op('Mul', [hidden, hidden]);
    const next = graph.op('Add', [middle, graph.op('MatMul', [squared, name('mlp_down')])]);
    const tape = {
      input,
      attentionInverse: attentionNorm.inverse,
      query,
      key,
      value,
      attention,
      mixed,
      middle,
      mlpInverse: mlpNorm.inverse,
      hidden,
    };
    return { next, tape };
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
