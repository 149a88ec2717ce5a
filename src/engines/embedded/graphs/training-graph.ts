import { Graph, type Value } from '../onnx/graph.ts';
import { type Architecture, headWidth, parameterCount, tensorShapes } from '../weights/architecture.ts';

/**
 * What the graphs of training share: the flat parameter vector, split into tensors, and a batch of padded sequences
 * (`ids` and `previous.k` [batch, time]) with `rows` [rows], the flat indices of the positions whose outputs are
 * wanted.
 */
export abstract class TrainingGraph {
  readonly graph = new Graph();
  protected readonly architecture: Architecture;
  readonly #parameters = new Map<string, Value>();
  protected readonly batchAndTime: Value;
  /** Of attention scores. */
  protected readonly scale: number;

  constructor(architecture: Architecture) {
    this.architecture = architecture;
    this.scale = 1 / Math.sqrt(headWidth(architecture));
    const graph = this.graph;
    graph.input('parameters', 'float32', [parameterCount(architecture)]);
    graph.input('ids', 'int64', ['batch', 'time']);
    for (let distance = 1; distance <= architecture.previousTokens; distance++)
      graph.input(`previous.${distance}`, 'int64', ['batch', 'time']);
    graph.input('rows', 'int64', ['rows']);
    this.batchAndTime = graph.op('Shape', ['ids']);
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

  protected parameter(name: string): Value {
    const value = this.#parameters.get(name);
    if (value === undefined) throw new Error(`the architecture has no tensor ${name}`);
    return value;
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
