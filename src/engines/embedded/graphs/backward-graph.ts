import type { Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, isLookup, tensorShapes } from '../weights/architecture.ts';
import { normalizeBackward, renormalize } from './normalization.ts';
import { type LayerTape, TrainingGraph, tapeShapes } from './training-graph.ts';

/**
 * The backward pass of training. Inputs: the tape; `logits_gradient`, dLoss/dlogits [rows, vocabulary]; and `sources`
 * [tokens], for each position 1 + its row, or 0. Outputs: `gradient`, the flat gradient without the tables that are
 * looked up by token, and `embedding_gradient` [tokens, width], the gradient of the looked-up rows: see `addGradient`.
 */
export function backwardGraph(architecture: Architecture): Uint8Array {
  return new BackwardPass(architecture).graph.finish();
}

class BackwardPass extends TrainingGraph {
  readonly #gradients = new Map<string, Value>();

  constructor(architecture: Architecture) {
    super(architecture);
    const { graph } = this;
    for (const [name, shape] of tapeShapes(architecture)) graph.input(name, 'float32', shape);
    graph.input('sources', 'int64', ['tokens']);
    const slope = graph.input('logits_gradient', 'float32', ['rows', this.architecture.vocabularySize]);
    const final = { input: 'tape.last', inverse: 'tape.finalInverse', gain: this.parameter('final_norm') };
    this.#gradients.set('head', this.matmul(renormalize(graph, final), slope, { transposeLeft: true }));
    const finalGradient = normalizeBackward(
      graph,
      this.matmul(slope, this.parameter('head'), { transposeRight: true }),
      final,
    );
    this.#gradients.set('final_norm', finalGradient.gain);
    let gradient = finalGradient.input;
    for (let layer = this.architecture.layers - 1; layer >= 0; layer--)
      gradient = this.#layerBackward(layer, gradient);
    this.#embedBackward(gradient);
    const inside = tensorShapes(this.architecture).filter(({ name }) => !isLookup(name));
    const flat = inside.map(({ name }) =>
      graph.op('Reshape', [this.#gradients.get(name) as Value, graph.integers(-1)]),
    );
    const size = inside.reduce((sum, tensor) => sum + tensor.size, 0);
    graph.output('gradient', graph.op('Concat', flat, { axis: 0 }), [size]);
  }

  #layerBackward(layer: number, gradient: Value): Value {
    const { graph } = this;
    const tape = (part: keyof LayerTape) => `tape.${layer}.${part}`;
    const name = (part: string) => this.parameter(`layers.${layer}.${part}`);
    const set = (part: string, value: Value) => this.#gradients.set(`layers.${layer}.${part}`, value);

    const hidden = tape('hidden');
    set('mlp_down', this.matmul(graph.op('Mul', [hidden, hidden]), gradient, { transposeLeft: true }));
    const squaredGradient = this.matmul(gradient, name('mlp_down'), { transposeRight: true, scale: 2 });
    const hiddenGradient = graph.op('Mul', [squaredGradient, hidden]);
    const mlpNorm = { input: tape('middle'), inverse: tape('mlpInverse'), gain: name('mlp_norm') };
    set('mlp_up', this.matmul(renormalize(graph, mlpNorm), hiddenGradient, { transposeLeft: true }));
    const mlp = normalizeBackward(
      graph,
      this.matmul(hiddenGradient, name('mlp_up'), { transposeRight: true }),
      mlpNorm,
    );
    set('mlp_norm', mlp.gain);
    const middleGradient = graph.op('Add', [gradient, mlp.input]);

    set('attention_output', this.matmul(tape('mixed'), middleGradient, { transposeLeft: true }));
    const { query, keyValue } = this.#attentionBackward(
      layer,
      this.matmul(middleGradient, name('attention_output'), { transposeRight: true }),
    );
    const attentionNorm = {
      input: tape('input'),
      inverse: tape('attentionInverse'),
      gain: name('attention_norm'),
    };
    const normalized = renormalize(graph, attentionNorm);
    const parts = [
      this.matmul(this.select(layer, normalized), query, { transposeLeft: true }),
      this.matmul(normalized, keyValue, { transposeLeft: true }),
    ];
    set('query_key_value', graph.op('Concat', parts, { axis: 1 }));
    const projections = this.projections(layer);
    const normalizedGradient = graph.op('Add', [
      this.matmul(keyValue, projections.keyValue, { transposeRight: true }),
      this.#spread(layer, this.matmul(query, projections.query, { transposeRight: true })),
    ]);
    const attention = normalizeBackward(graph, normalizedGradient, attentionNorm);
    set('attention_norm', attention.gain);
    return graph.op('Add', [this.#spread(layer, middleGradient), attention.input]);
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

  /** From the gradient of the mixed heads [positions, width] to the gradients of the projections. */
  #attentionBackward(layer: number, mixedGradient: Value): { query: Value; keyValue: Value } {
    const { graph } = this;
    const tape = (part: keyof LayerTape) => `tape.${layer}.${part}`;
    const attention = tape('attention');
    const { width, heads } = this.architecture;
    const perHead = headWidth(this.architecture);
    const byHead = graph.op(
      'Transpose',
      [graph.op('Reshape', [mixedGradient, this.queryShape(layer, heads, perHead)])],
      { perm: [0, 2, 1, 3] },
    );
    const valueGradient = this.matmul(attention, byHead, { transposeLeft: true });
    const product = graph.op('Mul', [
      this.matmul(byHead, tape('value'), { transposeRight: true }),
      attention,
    ]);
    const total = graph.op('ReduceSum', [product, graph.integers(3)], { keepdims: 1 });
    const scoreGradient = graph.op('Sub', [product, graph.op('Mul', [attention, total])]);
    const queryGradient = this.matmul(scoreGradient, tape('key'), { scale: this.scale });
    const keyGradient = this.matmul(scoreGradient, tape('query'), {
      transposeLeft: true,
      scale: this.scale,
    });
    const stacked = graph.op(
      'Concat',
      [keyGradient, valueGradient].map((part) => graph.op('Unsqueeze', [part, graph.integers(0)])),
      { axis: 0 },
    );
    return {
      query: graph.op('Reshape', [
        graph.op('Transpose', [queryGradient], { perm: [0, 2, 1, 3] }),
        graph.integers(-1, width),
      ]),
      keyValue: graph.op('Reshape', [
        graph.op('Transpose', [stacked], { perm: [1, 3, 0, 2, 4] }),
        graph.integers(-1, 2 * width),
      ]),
    };
  }

  #embedBackward(gradient: Value): void {
    const { graph } = this;
    const { width, contextLength } = this.architecture;
    const byPosition = graph.op(
      'ReduceSum',
      [
        graph.op('Reshape', [
          gradient,
          graph.op('Concat', [this.batchAndTime, graph.integers(width)], { axis: 0 }),
        ]),
        graph.integers(0),
      ],
      { keepdims: 0 },
    );
    const time = graph.op('Slice', [this.batchAndTime, graph.integers(1), graph.integers(2)]);
    const missing = graph.op('Sub', [graph.integers(contextLength), time]);
    this.#gradients.set(
      'position_embedding',
      graph.op(
        'Pad',
        [byPosition, graph.op('Concat', [graph.integers(0, 0), missing, graph.integers(0)], { axis: 0 })],
        { mode: 'constant' },
      ),
    );
    graph.output('embedding_gradient', gradient, ['tokens', width]);
  }
}
