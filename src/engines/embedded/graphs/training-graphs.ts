import { Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, parameterCount, tensorShapes } from '../weights/architecture.ts';
import { normalize, normalizeBackward } from './normalization.ts';

/** What a layer's forward pass leaves for its backward pass. */
interface LayerTape {
  input: Value;
  attentionNorm: { output: Value; inverse: Value };
  query: Value;
  key: Value;
  value: Value;
  attention: Value;
  mixed: Value;
  middle: Value;
  mlpNorm: { output: Value; inverse: Value };
  hidden: Value;
  squared: Value;
}

/**
 * The graphs of training. Both take the flat parameter vector and a batch of padded sequences
 * (`ids` and `previous.k` [batch, time], `causal` [time, time] of 0 and a large negative number) and `rows` [rows],
 * the flat indices of the positions whose outputs are wanted.
 * `forward` gives `logits` [rows, vocabulary]. `backward` takes dLoss/dlogits of the same shape and gives
 * dLoss/dparameters as one flat vector; it computes the forward pass again rather than carry it over.
 */
class TrainingGraph {
  readonly graph = new Graph();
  readonly #architecture: Architecture;
  readonly #parameters = new Map<string, Value>();
  readonly #gradients = new Map<string, Value>();
  readonly #tapes: LayerTape[] = [];
  readonly #batchAndTime: Value;
  readonly #rows: Value;
  readonly #scale: number;

  constructor(architecture: Architecture) {
    this.#architecture = architecture;
    this.#scale = 1 / Math.sqrt(headWidth(architecture));
    const graph = this.graph;
    graph.input('parameters', 'float32', [parameterCount(architecture)]);
    graph.input('ids', 'int64', ['batch', 'time']);
    for (let distance = 1; distance <= architecture.previousTokens; distance++)
      graph.input(`previous.${distance}`, 'int64', ['batch', 'time']);
    graph.input('causal', 'float32', ['time', 'time']);
    this.#rows = graph.input('rows', 'int64', ['rows']);
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

  /** Emits the forward pass; returns the logits and what the head's backward pass needs. */
  forward(): { logits: Value; last: Value; final: { output: Value; inverse: Value }; picked: Value } {
    const { graph } = this;
    let state = this.#embed();
    for (let layer = 0; layer < this.#architecture.layers; layer++) state = this.#layer(layer, state);
    const picked = graph.op('Gather', [state, this.#rows], { axis: 0 });
    const final = normalize(graph, picked, this.#parameter('final_norm'));
    return { logits: graph.op('MatMul', [final.output, this.#parameter('head')]), last: state, final, picked };
  }

  /** Emits the backward pass; returns the flat gradient. */
  backward(logitsGradient: Value): Value {
    const { graph } = this;
    const { last, final, picked } = this.forward();
    this.#gradients.set('head', this.#matmul(final.output, logitsGradient, { transposeLeft: true }));
    const finalGradient = normalizeBackward(
      graph,
      this.#matmul(logitsGradient, this.#parameter('head'), { transposeRight: true }),
      { input: picked, inverse: final.inverse, gain: this.#parameter('final_norm') },
    );
    this.#gradients.set('final_norm', finalGradient.gain);
    let gradient = graph.op(
      'ScatterND',
      [
        graph.op('ConstantOfShape', [graph.op('Shape', [last])]),
        graph.op('Reshape', [this.#rows, graph.integers(-1, 1)]),
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
    return graph.op('Concat', flat, { axis: 0 });
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
        graph.op('Gather', [this.#parameter(`previous_embedding.${distance}`), `previous.${distance}`], { axis: 0 }),
      ]);
    return graph.op('Reshape', [sum, graph.integers(-1, this.#architecture.width)]);
  }

  #layer(layer: number, input: Value): Value {
    const { graph } = this;
    const { width, heads } = this.#architecture;
    const perHead = headWidth(this.#architecture);
    const name = (part: string) => this.#parameter(`layers.${layer}.${part}`);
    const attentionNorm = normalize(graph, input, name('attention_norm'));
    const packed = graph.op('Transpose', [
      graph.op('Reshape', [
        graph.op('MatMul', [attentionNorm.output, name('query_key_value')]),
        graph.op('Concat', [this.#batchAndTime, graph.integers(3, heads, perHead)], { axis: 0 }),
      ]),
    ], { perm: [2, 0, 3, 1, 4] });
    const [query, key, value] = graph
      .ops('Split', [packed, graph.integers(1, 1, 1)], { axis: 0 }, 3)
      .map((part) => graph.op('Squeeze', [part, graph.integers(0)])) as [Value, Value, Value];
    const scores = graph.op('Add', [this.#matmul(query, key, { transposeRight: true, scale: this.#scale }), 'causal']);
    const attention = graph.op('Softmax', [scores], { axis: -1 });
    const mixed = graph.op('Reshape', [
      graph.op('Transpose', [graph.op('MatMul', [attention, value])], { perm: [0, 2, 1, 3] }),
      graph.integers(-1, width),
    ]);
    const middle = graph.op('Add', [input, graph.op('MatMul', [mixed, name('attention_output')])]);
    const mlpNorm = normalize(graph, middle, name('mlp_norm'));
    const hidden = graph.op('Relu', [graph.op('MatMul', [mlpNorm.output, name('mlp_up')])]);
    const squared = graph.op('Mul', [hidden, hidden]);
    this.#tapes.push({ input, attentionNorm, query, key, value, attention, mixed, middle, mlpNorm, hidden, squared });
    return graph.op('Add', [middle, graph.op('MatMul', [squared, name('mlp_down')])]);
  }

  #layerBackward(layer: number, gradient: Value): Value {
    const { graph } = this;
    const tape = this.#tapes[layer] as LayerTape;
    const name = (part: string) => this.#parameter(`layers.${layer}.${part}`);
    const set = (part: string, value: Value) => this.#gradients.set(`layers.${layer}.${part}`, value);

    set('mlp_down', this.#matmul(tape.squared, gradient, { transposeLeft: true }));
    const squaredGradient = this.#matmul(gradient, name('mlp_down'), { transposeRight: true, scale: 2 });
    const hiddenGradient = graph.op('Mul', [squaredGradient, tape.hidden]);
    set('mlp_up', this.#matmul(tape.mlpNorm.output, hiddenGradient, { transposeLeft: true }));
    const mlp = normalizeBackward(graph, this.#matmul(hiddenGradient, name('mlp_up'), { transposeRight: true }), {
      input: tape.middle,
      inverse: tape.mlpNorm.inverse,
      gain: name('mlp_norm'),
    });
    set('mlp_norm', mlp.gain);
    const middleGradient = graph.op('Add', [gradient, mlp.input]);

    set('attention_output', this.#matmul(tape.mixed, middleGradient, { transposeLeft: true }));
    const packedGradient = this.#attentionBackward(
      tape,
      this.#matmul(middleGradient, name('attention_output'), { transposeRight: true }),
    );
    set('query_key_value', this.#matmul(tape.attentionNorm.output, packedGradient, { transposeLeft: true }));
    const attention = normalizeBackward(
      graph,
      this.#matmul(packedGradient, name('query_key_value'), { transposeRight: true }),
      { input: tape.input, inverse: tape.attentionNorm.inverse, gain: name('attention_norm') },
    );
    set('attention_norm', attention.gain);
    return graph.op('Add', [middleGradient, attention.input]);
  }

  /** From the gradient of the mixed heads [tokens, width] to that of the packed projection [tokens, 3 * width]. */
  #attentionBackward({ query, key, value, attention }: LayerTape, mixedGradient: Value): Value {
    const { graph } = this;
    const { width, heads } = this.#architecture;
    const perHead = headWidth(this.#architecture);
    const byHead = graph.op('Transpose', [
      graph.op('Reshape', [
        mixedGradient,
        graph.op('Concat', [this.#batchAndTime, graph.integers(heads, perHead)], { axis: 0 }),
      ]),
    ], { perm: [0, 2, 1, 3] });
    const valueGradient = this.#matmul(attention, byHead, { transposeLeft: true });
    const product = graph.op('Mul', [this.#matmul(byHead, value, { transposeRight: true }), attention]);
    const total = graph.op('ReduceSum', [product, graph.integers(3)], { keepdims: 1 });
    const scoreGradient = graph.op('Sub', [product, graph.op('Mul', [attention, total])]);
    const queryGradient = this.#matmul(scoreGradient, key, { scale: this.#scale });
    const keyGradient = this.#matmul(scoreGradient, query, { transposeLeft: true, scale: this.#scale });
    const stacked = graph.op(
      'Concat',
      [queryGradient, keyGradient, valueGradient].map((part) => graph.op('Unsqueeze', [part, graph.integers(0)])),
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
    const byPosition = graph.op('ReduceSum', [
      graph.op('Reshape', [gradient, graph.op('Concat', [this.#batchAndTime, graph.integers(width)], { axis: 0 })]),
      graph.integers(0),
    ], { keepdims: 0 });
    const time = graph.op('Slice', [this.#batchAndTime, graph.integers(1), graph.integers(2)]);
    const missing = graph.op('Sub', [graph.integers(contextLength), time]);
    this.#gradients.set(
      'position_embedding',
      graph.op('Pad', [
        byPosition,
        graph.op('Concat', [graph.integers(0, 0), missing, graph.integers(0)], { axis: 0 }),
      ], { mode: 'constant' }),
    );
    const scatter = (ids: Value) =>
      graph.op('ScatterND', [
        graph.op('ConstantOfShape', [graph.integers(vocabularySize, width)]),
        graph.op('Reshape', [ids, graph.integers(-1, 1)]),
        gradient,
      ], { reduction: 'add' });
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
  const { logits } = training.forward();
  training.graph.output('logits', logits, 'float32', ['rows', architecture.vocabularySize]);
  return training.graph.finish();
}

export function backwardGraph(architecture: Architecture): Uint8Array {
  const training = new TrainingGraph(architecture);
  training.graph.input('logits_gradient', 'float32', ['rows', architecture.vocabularySize]);
  const gradient = training.backward('logits_gradient');
  training.graph.output('gradient', gradient, 'float32', [parameterCount(architecture)]);
  return training.graph.finish();
}
