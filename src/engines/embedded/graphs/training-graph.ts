import { type Dimensions, Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, tensorShapes } from '../weights/architecture.ts';

/**
 * The shared inputs of the training graphs: each tensor of the parameters, and a batch of padded
 * sequences (`ids` and `previous.k` [batch, time]) with the positions whose outputs are requested: `positions`
 * [batch, picks] in time, and the same as flat indices, `rows` [batch * picks].
 *
 * The last layer computes its keys and values everywhere, but its queries and MLP, and the head, only at `rows`. In
 * conversations where one token in six is a decision that saves a third of the work.
 */
export abstract class TrainingGraph {
  readonly graph = new Graph();
  protected readonly architecture: Architecture;
  readonly #parameters: ReadonlySet<string>;
  protected readonly batchAndTime: Value;
  /** Factor of the attention scores. */
  protected readonly scale: number;

  constructor(architecture: Architecture) {
    this.architecture = architecture;
    this.scale = 1 / Math.sqrt(headWidth(architecture));
    const graph = this.graph;
    const shapes = tensorShapes(architecture);
    for (const { name, dimensions } of shapes) graph.input(name, 'float32', dimensions);
    this.#parameters = new Set(shapes.map(({ name }) => name));
    graph.input('ids', 'int64', ['batch', 'time']);
    for (let distance = 1; distance <= architecture.previousTokens; distance++)
      graph.input(`previous.${distance}`, 'int64', ['batch', 'time']);
    graph.input('positions', 'int64', ['batch', 'picks']);
    graph.input('rows', 'int64', ['rows']);
    this.batchAndTime = graph.op('Shape', ['ids']);
  }

  /** Whether a layer computes only the requested positions. */
  protected isLast(layer: number): boolean {
    return layer === this.architecture.layers - 1;
  }

  /** A shape that begins with the batch and the number of positions that a layer computes for each sequence. */
  protected queryShape(layer: number, ...rest: number[]): Value {
    const steps = this.isLast(layer) ? this.graph.op('Shape', ['positions']) : this.batchAndTime;
    return this.graph.op('Concat', [steps, this.graph.integers(...rest)], { axis: 0 });
  }

  /** Selects the states that a layer computes from those of all positions [tokens, width]. */
  protected select(layer: number, states: Value): Value {
    return this.isLast(layer) ? this.graph.op('Gather', [states, 'rows'], { axis: 0 }) : states;
  }

  /** Splits a layer's packed projection into its three parts, each [width, width]. */
  protected projections(layer: number): { query: Value; key: Value; value: Value } {
    const { graph } = this;
    const packed = this.parameter(`layers.${layer}.query_key_value`);
    const [query, key, value] = graph.ops('Split', [packed], { axis: 1, num_outputs: 3 }, 3);
    return { query: query as Value, key: key as Value, value: value as Value };
  }

  /** A tensor of the parameters. */
  protected parameter(name: string): Value {
    if (!this.#parameters.has(name)) throw new Error(`the architecture has no tensor ${name}`);
    return name;
  }

  protected matmul(
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

/** The values of the forward pass that the backward pass needs: outputs of the one graph and inputs of the other. */
export function tapeShapes(architecture: Architecture): Map<Value, Dimensions> {
  const { width, heads, mlpWidth, layers } = architecture;
  const shapes = new Map<Value, Dimensions>([
    ['tape.last', ['rows', width]],
    ['tape.finalInverse', ['rows', 1]],
  ]);
  for (let layer = 0; layer < layers; layer++) {
    const [rows, steps] = layer === layers - 1 ? ['rows', 'picks'] : ['tokens', 'time'];
    const byHead = ['batch', heads, 'time', headWidth(architecture)];
    const parts: Record<keyof LayerTape, Dimensions> = {
      input: ['tokens', width],
      attentionInverse: ['tokens', 1],
      query: ['batch', heads, steps, headWidth(architecture)],
      key: byHead,
      value: byHead,
      attention: ['batch', heads, steps, 'time'],
      mixed: [rows, width],
      middle: [rows, width],
      mlpInverse: [rows, 1],
      hidden: [rows, mlpWidth],
    };
    for (const [part, shape] of Object.entries(parts)) shapes.set(`tape.${layer}.${part}`, shape);
  }
  return shapes;
}

/** The values of a layer's forward pass that its backward pass needs. */
export interface LayerTape {
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
