import { Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, parameterCount, tensorShapes } from '../weights/architecture.ts';
import { normalize, normalizeBackward, renormalize } from './normalization.ts';

/** What a layer's forward pass leaves for its backward pass. */
interface LayerTape {
  input: Value;
  attentionInverse: Value;
  query: Value;
  key: Value;
  value: Value;
  attention: Value;
  mixed: Value;
  middle: Value;
  mlpInverse: Value;
  hidden: Value;
}

/** What the head's forward pass leaves. */
interface HeadTape {
  picked: Value;
  finalInverse: Value;
}

/** Shapes of the tape's tensors, to hand them from one graph to the other. */
function tapeShapes(architecture: Architecture): {
  layer: Record<keyof LayerTape, (string | number)[]>;
  head: Record<keyof HeadTape, (string | number)[]>;
} {
  const { width, heads, expansion } = architecture;
  const state = ['tokens', width];
  const byHead = ['batch', heads, 'time', headWidth(architecture)];
  return {
    layer: {
      input: state,
      attentionInverse: ['tokens', 1],
      query: byHead,
      key: byHead,
      value: byHead,
      attention: ['batch', heads, 'time', 'time'],
      mixed: state,
      middle: state,
      mlpInverse: ['tokens', 1],
      hidden: ['tokens', expansion * width],
    },
    head: { picked: ['rows', width], finalInverse: ['rows', 1] },
  };
}

/** The name and the shape of every tensor of the tape. */
export function tapeNames(architecture: Architecture): { name: string; shape: (string | number)[] }[] {
  const { layer, head } = tapeShapes(architecture);
  const names = Object.entries(head).map(([part, shape]) => ({ name: `tape.${part}`, shape }));
  for (let index = 0; index < architecture.layers; index++)
    for (const [part, shape] of Object.entries(layer)) names.push({ name: `tape.${index}.${part}`, shape });
  return names;
}

/**
 * The graphs of training. Both take the flat parameter vector and a batch of padded sequences (`ids` [batch, time]
 * and `rows` [rows], the flat indices of the positions whose outputs are wanted).
 * `forward` also takes `previous.k` [batch, time] and `causal` [time, time] of 0 and a large negative number; it
 * gives `logits` [rows, vocabulary] and the tape, the values that `backward` needs again.
 * `backward` takes the tape and dLoss/dlogits and gives dLoss/dparameters as one flat vector.
 */
class TrainingGraph {
  readonly graph = new Graph();
  readonly #architecture: Architecture;
  readonly #parameters = new Map<string, Value>();
  readonly #gradients = new Map<string, Value>();
  readonly #batchAndTime: Value;
  readonly #scale: number;

  constructor(architecture: Architecture) {
    this.#architecture = architecture;
    this.#scale = 1 / Math.sqrt(headWidth(architecture));
    const graph = this.graph;
    graph.input('parameters', 'float32', [parameterCount(architecture)]);
    graph.input('ids', 'int64', ['batch', 'time']);
    for (let distance = 1; distance <= architecture.previousTokens; distance++)
      graph.input(`previous.${distance}`, 'int64', ['batch', 'time']);
    graph.input('rows', 'int64', ['rows']);
    this.#batchAndTime = graph.op('Shape', ['ids']);
    const shapes = tensorShapes(architecture);
    const parts = graph.ops(
      'Split',
      ['parameters', graph.integers(...shapes.map(({ size }) => size))],
      { axis: 0 },
      shapes.length,
    );
    shapes.forEach(({ name, dimensions }, index) => {
      this.#parameters.set(name, graph.op('Reshape', [parts[index] as Value, graph.integers(...dimensions)]));
    });
  }

  forward(): void {
    const { graph } = this;
    const shapes = tapeShapes(this.#architecture);
    graph.input('causal', 'float32', ['time', 'time']);
    let state = this.#embed();
    for (let layer = 0; layer < this.#architecture.layers; layer++) {
      const { output, tape } = this.#layer(layer, state);
      for (const [part, value] of Object.entries(tape))
        graph.output(`tape.${layer}.${part}`, value, 'float32', shapes.layer[part as keyof LayerTape]);
      state = output;
    }
    const picked = graph.op('Gather', [state, 'rows'], { axis: 0 });
    const final = normalize(graph, picked, this.#parameter('final_norm'));
    graph.output('tape.picked', picked, 'float32', shapes.head.picked);
    graph.output('tape.finalInverse', final.inverse, 'float32', shapes.head.finalInverse);
    const logits = graph.op('MatMul', [final.output, this.#parameter('head')]);
    graph.output('logits', logits, 'float32', ['rows', this.#architecture.vocabularySize]);
  }

  backward(): void {
    const { graph } = this;
    for (const { name, shape } of tapeNames(this.#architecture)) graph.input(name, 'float32', shape);
    const slope = graph.input('logits_gradient', 'float32', ['rows', this.#architecture.vocabularySize]);
    const final = { input: 'tape.picked', inverse: 'tape.finalInverse', gain: this.#parameter('final_norm') };
    this.#gradients.set('head', this.#matmul(renormalize(graph, final), slope, { transposeLeft: true }));
    const finalGradient = normalizeBackward(
      graph,
      this.#matmul(slope, this.#parameter('head'), { transposeRight: true }),
      final,
    );
    this.#gradients.set('final_norm', finalGradient.gain);
    let gradient = graph.op(
      'ScatterND',
      [
        graph.op('ConstantOfShape', [graph.op('Shape', ['tape.0.input'])]),
        graph.op('Reshape', ['rows', graph.integers(-1, 1)]),
        finalGradient.input,
      ],
      { reduction: 'add' },
    );
    for (let layer = this.#architecture.layers - 1; layer >= 0; layer--)
      gradient = this.#layerBackward(layer, gradient);
    this.#embedBackward(gradient);
    const flat = tensorShapes(this.#architecture).map(({ name }) =>
      graph.op('Reshape', [this.#gradients.get(name) as Value, graph.integers(-1)]),
    );
    const total = graph.op('Concat', flat, { axis: 0 });
    graph.output('gradient', total, 'float32', [parameterCount(this.#architecture)]);
  }

  #embed(): Value {
    const { graph } = this;
    const positions = graph.op('Slice', [
      this.#parameter('position_embedding'),
      graph.integers(0),
      graph.op('Slice', [this.#batchAndTime, graph.integers(1), graph.integers(2)]),
      graph.integers(0),
    ]);
    let sum = graph.op('Add', [
      graph.op('Gather', [this.#parameter('token_embedding'), 'ids'], { axis: 0 }),
      positions,
    ]);
    for (let distance = 1; distance <= this.#architecture.previousTokens; distance++)
      sum = graph.op('Add', [
        sum,
        graph.op('Gather', [this.#parameter(`previous_embedding.${distance}`), `previous.${distance}`], {
          axis: 0,
        }),
      ]);
    return graph.op('Reshape', [sum, graph.integers(-1, this.#architecture.width)]);
  }

  #layer(layer: number, input: Value): { output: Value; tape: LayerTape } {
    const { graph } = this;
    const { width, heads } = this.#architecture;
    const perHead = headWidth(this.#architecture);
    const name = (part: string) => this.#parameter(`layers.${layer}.${part}`);
    const attentionNorm = normalize(graph, input, name('attention_norm'));
    const packed = graph.op(
      'Transpose',
      [
        graph.op('Reshape', [
          graph.op('MatMul', [attentionNorm.output, name('query_key_value')]),
          graph.op('Concat', [this.#batchAndTime, graph.integers(3, heads, perHead)], { axis: 0 }),
        ]),
      ],
      { perm: [2, 0, 3, 1, 4] },
    );
    const [query, key, value] = graph
      .ops('Split', [packed, graph.integers(1, 1, 1)], { axis: 0 }, 3)
      .map((part) => graph.op('Squeeze', [part, graph.integers(0)])) as [Value, Value, Value];
    const scores = graph.op('Add', [
      this.#matmul(query, key, { transposeRight: true, scale: this.#scale }),
      'causal',
    ]);
    const attention = graph.op('Softmax', [scores], { axis: -1 });
    const mixed = graph.op('Reshape', [
      graph.op('Transpose', [graph.op('MatMul', [attention, value])], { perm: [0, 2, 1, 3] }),
      graph.integers(-1, width),
    ]);
    const middle = graph.op('Add', [input, graph.op('MatMul', [mixed, name('attention_output')])]);
    const mlpNorm = normalize(graph, middle, name('mlp_norm'));
    const hidden = graph.op('Relu', [graph.op('MatMul', [mlpNorm.output, name('mlp_up')])]);
    const squared = graph.op('Mul', [hidden, hidden]);
    const output = graph.op('Add', [middle, graph.op('MatMul', [squared, name('mlp_down')])]);
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
    return { output, tape };
  }

  #layerBackward(layer: number, gradient: Value): Value {
    const { graph } = this;
    const tape = (part: keyof LayerTape) => `tape.${layer}.${part}`;
    const name = (part: string) => this.#parameter(`layers.${layer}.${part}`);
    const set = (part: string, value: Value) => this.#gradients.set(`layers.${layer}.${part}`, value);

    const hidden = tape('hidden');
    set('mlp_down', this.#matmul(graph.op('Mul', [hidden, hidden]), gradient, { transposeLeft: true }));
    const squaredGradient = this.#matmul(gradient, name('mlp_down'), { transposeRight: true, scale: 2 });
    const hiddenGradient = graph.op('Mul', [squaredGradient, hidden]);
    const mlpNorm = { input: tape('middle'), inverse: tape('mlpInverse'), gain: name('mlp_norm') };
    set('mlp_up', this.#matmul(renormalize(graph, mlpNorm), hiddenGradient, { transposeLeft: true }));
    const mlp = normalizeBackward(
      graph,
      this.#matmul(hiddenGradient, name('mlp_up'), { transposeRight: true }),
      mlpNorm,
    );
    set('mlp_norm', mlp.gain);
    const middleGradient = graph.op('Add', [gradient, mlp.input]);

    set('attention_output', this.#matmul(tape('mixed'), middleGradient, { transposeLeft: true }));
    const packedGradient = this.#attentionBackward(
      tape,
      this.#matmul(middleGradient, name('attention_output'), { transposeRight: true }),
    );
    const attentionNorm = {
      input: tape('input'),
      inverse: tape('attentionInverse'),
      gain: name('attention_norm'),
    };
    set(
      'query_key_value',
      this.#matmul(renormalize(graph, attentionNorm), packedGradient, { transposeLeft: true }),
    );
    const attention = normalizeBackward(
      graph,
      this.#matmul(packedGradient, name('query_key_value'), { transposeRight: true }),
      attentionNorm,
    );
    set('attention_norm', attention.gain);
    return graph.op('Add', [middleGradient, attention.input]);
  }

  /** From the gradient of the mixed heads [tokens, width] to that of the packed projection [tokens, 3 * width]. */
  #attentionBackward(tape: (part: keyof LayerTape) => Value, mixedGradient: Value): Value {
    const { graph } = this;
    const attention = tape('attention');
    const { width, heads } = this.#architecture;
    const perHead = headWidth(this.#architecture);
    const byHead = graph.op(
      'Transpose',
      [
        graph.op('Reshape', [
          mixedGradient,
          graph.op('Concat', [this.#batchAndTime, graph.integers(heads, perHead)], { axis: 0 }),
        ]),
      ],
      { perm: [0, 2, 1, 3] },
    );
    const valueGradient = this.#matmul(attention, byHead, { transposeLeft: true });
    const product = graph.op('Mul', [
      this.#matmul(byHead, tape('value'), { transposeRight: true }),
      attention,
    ]);
    const total = graph.op('ReduceSum', [product, graph.integers(3)], { keepdims: 1 });
    const scoreGradient = graph.op('Sub', [product, graph.op('Mul', [attention, total])]);
    const queryGradient = this.#matmul(scoreGradient, tape('key'), { scale: this.#scale });
    const keyGradient = this.#matmul(scoreGradient, tape('query'), {
      transposeLeft: true,
      scale: this.#scale,
    });
    const stacked = graph.op(
      'Concat',
      [queryGradient, keyGradient, valueGradient].map((part) =>
        graph.op('Unsqueeze', [part, graph.integers(0)]),
      ),
      { axis: 0 },
    );
    return graph.op('Reshape', [
      graph.op('Transpose', [stacked], { perm: [1, 3, 0, 2, 4] }),
      graph.integers(-1, 3 * width),
    ]);
  }

  #embedBackward(gradient: Value): void {
    const { graph } = this;
    const { width, vocabularySize, contextLength } = this.#architecture;
    const byPosition = graph.op(
      'ReduceSum',
      [
        graph.op('Reshape', [
          gradient,
          graph.op('Concat', [this.#batchAndTime, graph.integers(width)], { axis: 0 }),
        ]),
        graph.integers(0),
      ],
      { keepdims: 0 },
    );
    const time = graph.op('Slice', [this.#batchAndTime, graph.integers(1), graph.integers(2)]);
    const missing = graph.op('Sub', [graph.integers(contextLength), time]);
    this.#gradients.set(
      'position_embedding',
      graph.op(
        'Pad',
        [byPosition, graph.op('Concat', [graph.integers(0, 0), missing, graph.integers(0)], { axis: 0 })],
        { mode: 'constant' },
      ),
    );
    const scatter = (ids: Value) =>
      graph.op(
        'ScatterND',
        [
          graph.op('ConstantOfShape', [graph.integers(vocabularySize, width)]),
          graph.op('Reshape', [ids, graph.integers(-1, 1)]),
          gradient,
        ],
        { reduction: 'add' },
      );
    this.#gradients.set('token_embedding', scatter('ids'));
    for (let distance = 1; distance <= this.#architecture.previousTokens; distance++)
      this.#gradients.set(`previous_embedding.${distance}`, scatter(`previous.${distance}`));
  }

  #parameter(name: string): Value {
    const value = this.#parameters.get(name);
    if (value === undefined) throw new Error(`the architecture has no tensor ${name}`);
    return value;
  }

  #matmul(
    left: Value,
    right: Value,
    { transposeLeft = false, transposeRight = false, scale = 1 } = {},
  ): Value {
    return this.graph.contribOp('FusedMatMul', [left, right], {
      transA: transposeLeft ? 1 : 0,
      transB: transposeRight ? 1 : 0,
      alpha: { float: scale },
    });
  }
}

export function forwardGraph(architecture: Architecture): Uint8Array {
  const training = new TrainingGraph(architecture);
  training.forward();
  return training.graph.finish();
}

export function backwardGraph(architecture: Architecture): Uint8Array {
  const training = new TrainingGraph(architecture);
  training.backward();
  return training.graph.finish();
}
