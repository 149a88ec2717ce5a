import type { Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, tensorShapes } from '../weights/architecture.ts';
import { normalizeBackward, renormalize } from './normalization.ts';
import { type LayerTape, TrainingGraph, tapeShapes } from './training-graph.ts';

/**
 * The backward pass of training. Inputs: the tape; `logits_gradient`, dLoss/dlogits [rows, vocabulary]; and `sources`
 * [tokens], for each position 1 + its row, or 0. Outputs: the gradient of each tensor under `gradientName`, that of
 * `position_embedding` only for the batch's `time` positions; and in place of those of the tables that are looked up by
 * token, `embedding_gradient` [tokens, width], the gradient of the looked-up rows: see `addGradient`.
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
    const final = { input: 'tape.last', inverse: 'tape.finalInverse', gain: this.parameter('final_norm') };
    this.#output('head', this.matmul(renormalize(graph, final), slope, { transposeLeft: true }));
    const finalGradient = normalizeBackward(
      graph,
      this.matmul(slope, this.parameter('head'), { transposeRight: true }),
      final,
    );
    this.#output('final_norm', finalGradient.gain);
    let gradient = finalGradient.input;
    for (let layer = this.architecture.layers - 1; layer >= 0; layer--)
      gradient = this.#layerBackward(layer, gradient);
    this.#embedBackward(gradient);
  }

  #layerBackward(layer: number, gradient: Value): Value {
    const { graph } = this;
    const tape = (part: keyof LayerTape) => `tape.${layer}.${part}`;
    const name = (part: string) => this.parameter(`layers.${layer}.${part}`);
    const output = (part: string, value: Value) => this.#output(`layers.${layer}.${part}`, value);

    const hidden = tape('hidden');
    output('mlp_down', this.matmul(graph.op('Mul', [hidden, hidden]), gradient, { transposeLeft: true }));
    const squaredGradient = this.matmul(gradient, name('mlp_down'), { transposeRight: true, scale: 2 });
    const hiddenGradient = graph.op('Mul', [squaredGradient, hidden]);
    const mlpNorm = { input: tape('middle'), inverse: tape('mlpInverse'), gain: name('mlp_norm') };
    output('mlp_up', this.matmul(renormalize(graph, mlpNorm), hiddenGradient, { transposeLeft: true }));
    const mlp = normalizeBackward(
      graph,
      this.matmul(hiddenGradient, name('mlp_up'), { transposeRight: true }),
      mlpNorm,
    );
    output('mlp_norm', mlp.gain);
    const middleGradient = graph.op('Add', [gradient, mlp.input]);

    output('attention_output', this.matmul(tape('mixed'), middleGradient, { transposeLeft: true }));
    const { query, key, value } = this.#attentionBackward(
      layer,
      this.matmul(middleGradient, name('attention_output'), { transposeRight: true }),
    );
    const attentionNorm = {
      input: tape('input'),
      inverse: tape('attentionInverse'),
      gain: name('attention_norm'),
    };
    const normalized = renormalize(graph, attentionNorm);
    const selected = this.select(layer, normalized);
    const parts = [
      this.matmul(selected, query, { transposeLeft: true }),
      this.matmul(normalized, key, { transposeLeft: true }),
      this.matmul(normalized, value, { transposeLeft: true }),
    ];
    output('query_key_value', graph.op('Concat', parts, { axis: 1 }));
    const projections = this.projections(layer);
    const fromQuery = this.matmul(query, projections.query, { transposeRight: true });
    const fromKey = this.#accumulate(this.#spread(layer, fromQuery), key, projections.key);
    const normalizedGradient = this.#accumulate(fromKey, value, projections.value);
    const attention = normalizeBackward(graph, normalizedGradient, attentionNorm);
    output('attention_norm', attention.gain);
    return graph.op('Add', [this.#spread(layer, middleGradient), attention.input]);
  }

  #output(tensor: string, gradient: Value): void {
    const shape = tensorShapes(this.architecture).find(({ name }) => name === tensor);
    if (!shape) throw new Error(`the architecture has no tensor ${tensor}`);
    this.graph.output(gradientName(tensor), gradient, shape.dimensions);
  }

  /** sum + left * right^T. */
  #accumulate(sum: Value, left: Value, right: Value): Value {
    return this.graph.op('Gemm', [left, right, sum], { transB: 1 });
  }

  /**
   * The backward pass of `select`: zeros at positions that were not selected. It gathers instead of scattering, because
   * ONNX Runtime's scatter loses additions to the same index on several threads.
   */
  #spread(layer: number, gradient: Value): Value {
    if (!this.isLast(layer)) return gradient;
    const { graph } = this;
    const zero = graph.op('ConstantOfShape', [graph.integers(1, this.architecture.width)]);
    const extended = graph.op('Concat', [zero, gradient], { axis: 0 });
    return graph.op('Gather', [extended, 'sources'], { axis: 0 });
  }

  /**
   * From the gradient dO of the mixed heads O [positions, width] to the gradients of the projections. With attention P
   * and values V, dP = dO V^T and the gradient of the scores is P * (dP - sum(P * dP)); the sum over the positions is
   * that of O * dO over a head's width, which is shorter (Dao et al. 2022, arXiv:2205.14135, appendix B.4).
   */
  #attentionBackward(layer: number, mixedGradient: Value): { query: Value; key: Value; value: Value } {
    const { graph } = this;
    const tape = (part: keyof LayerTape) => `tape.${layer}.${part}`;
    const { width, heads } = this.architecture;
    const shape = this.queryShape(layer, heads, headWidth(this.architecture));
    const apart = (states: Value) => graph.op('Reshape', [states, shape]);
    const together = (states: Value, perm: readonly number[]) =>
      graph.op('Reshape', [graph.op('Transpose', [states], { perm }), graph.integers(-1, width)]);
    const byHead = graph.op('Transpose', [apart(mixedGradient)], { perm: [0, 2, 1, 3] });
    const product = apart(graph.op('Mul', [tape('mixed'), mixedGradient]));
    const total = graph.op(
      'Transpose',
      [graph.op('ReduceSum', [product, graph.integers(3)], { keepdims: 1 })],
      { perm: [0, 2, 1, 3] },
    );
    const attentionGradient = this.matmul(byHead, tape('value'), { transposeRight: true });
    const scoreGradient = graph.op('Mul', [graph.op('Sub', [attentionGradient, total]), tape('attention')]);
    const query = this.matmul(scoreGradient, tape('key'), { scale: this.scale });
    // Keys and values come out transposed, because transposing the smaller operand of a product takes less time.
    const key = this.matmul(tape('query'), scoreGradient, { transposeLeft: true, scale: this.scale });
    const value = this.matmul(byHead, tape('attention'), { transposeLeft: true });
    return {
      query: together(query, [0, 2, 1, 3]),
      key: together(key, [0, 3, 1, 2]),
      value: together(value, [0, 3, 1, 2]),
    };
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
