import type { Graph, Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';

/** RMS normalisation of the last axis. `inverse` is 1 / root mean square, of shape [rows, 1]. */
export function normalize(
  graph: Graph,
  input: Value,
  gain: Value,
  epsilon: number,
): { output: Value; inverse: Value } {
  const [output, inverse] = graph.ops(
    'SimplifiedLayerNormalization',
    [input, gain],
    { axis: -1, epsilon: { float: epsilon } },
    2,
  ) as [Value, Value];
  return { output, inverse };
}

/** The gain of a norm with these weights. */
export const gainOf = (graph: Graph, { normOffset }: Architecture, weights: Value): Value =>
  normOffset === 0 ? weights : graph.op('Add', [weights, graph.scalar(normOffset)]);

/** Values times a factor. */
export const scaled = (graph: Graph, values: Value, factor: number): Value =>
  factor === 1 ? values : graph.op('Mul', [values, graph.scalar(factor)]);

interface NormOptions {
  /** The tensor that scales the normalised values. */
  gain: Value;
  epsilon: number;
  /** Gets the gain's gradient; null when the gain is not trained. */
  keepGradient: ((gradient: Value) => void) | null;
  /**
   * Whether to use the runtime's own operator. Its second output is wrong on WebGPU, so that graphs for all devices are
   * written out.
   */
  isFused: boolean;
}

/** RMS normalisation of the last axis, forward and backward. */
export class Norm {
  readonly #graph: Graph;
  readonly #options: NormOptions;

  constructor(graph: Graph, options: NormOptions) {
    this.#graph = graph;
    this.#options = options;
  }

  forward(input: Value): { output: Value; inverse: Value } {
    const { gain, epsilon, isFused } = this.#options;
    const graph = this.#graph;
    if (isFused) return normalize(graph, input, gain, epsilon);
    const square = graph.op('ReduceMean', [graph.op('Mul', [input, input]), graph.integers(-1)], {
      keepdims: 1,
    });
    const root = graph.op('Sqrt', [graph.op('Add', [square, graph.scalar(epsilon)])]);
    const inverse = graph.op('Reciprocal', [root]);
    return { output: this.outputOf(input, inverse), inverse };
  }

  /** The output again. In the graph of the forward pass the runtime computes it once. */
  outputOf(input: Value, inverse: Value): Value {
    const graph = this.#graph;
    return graph.op('Mul', [graph.op('Mul', [input, inverse]), this.#options.gain]);
  }

  /**
   * From dLoss/doutput to dLoss/dinput. With h = x * inverse, y = h * g: dg is the sum of dy * h over all axes but the
   * last, and dx = (dy * g - h * mean(dy * h * g)) * inverse. `leading`: how many axes are before the last. Default 1.
   */
  backward(gradient: Value, input: Value, inverse: Value, leading = 1): Value {
    const { gain, keepGradient } = this.#options;
    const graph = this.#graph;
    const scaled = graph.op('Mul', [input, inverse]);
    const product = graph.op('Mul', [gradient, scaled]);
    const axes = Array.from({ length: leading }, (_, axis) => axis);
    keepGradient?.(graph.op('ReduceSum', [product, graph.integers(...axes)], { keepdims: 0 }));
    const outer = graph.op('Mul', [gradient, gain]);
    const mean = graph.op('ReduceMean', [graph.op('Mul', [product, gain]), graph.integers(-1)], {
      keepdims: 1,
    });
    const centred = graph.op('Sub', [outer, graph.op('Mul', [scaled, mean])]);
    return graph.op('Mul', [centred, inverse]);
  }
}
