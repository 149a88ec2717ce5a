import { kernelPart } from '../checkpoint/tensors.ts';
import type { Graph, Value } from '../onnx/graph.ts';

/**
 * What a convolution of training is built from. A row of states is found by its index plus 1 and
 * index 0 is a row of zeros, so that one table of rows serves sequences that share their first tokens in a row.
 */
export interface ConvolutionParts {
  graph: Graph;
  width: number;
  taps: number;
  /** Its kernels, [width, 1, taps]. */
  kernels: Value;
  /** Gets the kernels' gradient; null when they are not trained. */
  keepGradient: ((gradient: Value) => void) | null;
  /** The rows that the taps of each token see, [tokens, taps]. */
  earlier: Value;
  /**
   * Indices of the terms that add up to each token's gradient, [tokens, taps]: 1 + token * taps + tap for a term; the sums
   * of `joined` come after all terms. `joined` [sums, terms] has the terms of tokens that more than `taps` tokens see,
   * because sequences part there.
   */
  later: Value;
  joined: Value;
}

/** The inputs of a convolution in a graph, for a batch. */
export function convolutionInputs(
  graph: Graph,
  { width, taps }: { width: number; taps: number },
): Pick<ConvolutionParts, 'kernels' | 'earlier' | 'later' | 'joined'> {
  return {
    kernels: graph.input(kernelPart, 'float32', [width, 1, taps]),
    earlier: graph.input('earlier', 'int64', ['tokens', taps]),
    later: graph.input('later', 'int64', ['tokens', taps]),
    joined: graph.input('joined', 'int64', ['sums', 'terms']),
  };
}

/**
 * A gated short convolution between its projections, forward and backward: from what in_proj gives, [tokens, 3 * width], to
 * C * y [tokens, width]. See `Convolutions`.
 */
export class Convolution {
  readonly #parts: ConvolutionParts;

  constructor(parts: ConvolutionParts) {
    this.#parts = parts;
  }

  forward(projected: Value): Value {
    const { gate, output } = this.#convolve(projected);
    return this.#parts.graph.op('Mul', [gate, output]);
  }

  /** Turns the gradient of the output into the gradient of the input. */
  backward(gradient: Value, projected: Value): Value {
    const { graph, keepGradient, taps, width } = this.#parts;
    const { factor, gate, input, window, kernels, output } = this.#convolve(projected);
    const outer = graph.op('Unsqueeze', [graph.op('Mul', [gradient, gate]), graph.integers(1)]);
    const sum = (values: Value, axis: number) =>
      graph.op('ReduceSum', [values, graph.integers(axis)], { keepdims: 0 });
    if (keepGradient) {
      const ofKernels = graph.op('Transpose', [sum(graph.op('Mul', [window, outer]), 0)], { perm: [1, 0] });
      keepGradient(graph.op('Reshape', [ofKernels, graph.integers(width, 1, taps)]));
    }
    const terms = graph.op('Reshape', [graph.op('Mul', [outer, kernels]), graph.integers(-1, width)]);
    const table = this.#withZeros(terms);
    const { joined, later } = this.#parts;
    const sums = sum(graph.op('Gather', [table, joined], { axis: 0 }), 1);
    const all = graph.op('Concat', [table, sums], { axis: 0 });
    const product = sum(graph.op('Gather', [all, later], { axis: 0 }), 1);
    const parts = [
      graph.op('Mul', [product, input]),
      graph.op('Mul', [gradient, output]),
      graph.op('Mul', [product, factor]),
    ];
    return graph.op('Concat', parts, { axis: 1 });
  }

  /** The parts B, C and x, the rows of B * x that each token sees [tokens, taps, width], and y. */
  #convolve(projected: Value) {
    const { graph, width, taps, kernels: given, earlier } = this.#parts;
    const [factor, gate, input] = graph.ops('Split', [projected], { axis: 1, num_outputs: 3 }, 3) as [
      Value,
      Value,
      Value,
    ];
    const table = this.#withZeros(graph.op('Mul', [factor, input]));
    const window = graph.op('Gather', [table, earlier], { axis: 0 });
    const byChannel = graph.op('Reshape', [given, graph.integers(width, taps)]);
    const kernels = graph.op('Transpose', [byChannel], { perm: [1, 0] });
    const output = graph.op('ReduceSum', [graph.op('Mul', [window, kernels]), graph.integers(1)], {
      keepdims: 0,
    });
    return { factor, gate, input, window, kernels, output };
  }

  #withZeros(rows: Value): Value {
    const { graph, width } = this.#parts;
    return graph.op('Concat', [graph.weight([1, width], new Float32Array(width)), rows], { axis: 0 });
  }
}
