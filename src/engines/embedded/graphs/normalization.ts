import type { Graph, Value } from '../onnx/graph.ts';

const epsilon = 1e-5;

/** RMS normalisation of the last axis. `inverse` is 1 / root mean square, of shape [rows, 1]. */
export function normalize(graph: Graph, input: Value, gain: Value): { output: Value; inverse: Value } {
  const [output, inverse] = graph.ops(
    'SimplifiedLayerNormalization',
    [input, gain],
    { axis: -1, epsilon: { float: epsilon } },
    2,
  ) as [Value, Value];
  return { output, inverse };
}

/** The values of a normalisation that its backward pass needs. */
interface NormalizationTape {
  input: Value;
  inverse: Value;
  gain: Value;
}

/** Recomputes the output of `normalize` from the tape. */
export function renormalize(graph: Graph, { input, inverse, gain }: NormalizationTape): Value {
  return graph.op('Mul', [graph.op('Mul', [input, inverse]), gain]);
}

/**
 * Backward of `normalize` over rows: with h = x * inverse, y = h * g,
 * dg = sum_rows(dy * h) and dx = (dy * g - h * mean(dy * h * g)) * inverse.
 */
export function normalizeBackward(
  graph: Graph,
  gradient: Value,
  { input, inverse, gain }: NormalizationTape,
): { input: Value; gain: Value } {
  const scaled = graph.op('Mul', [input, inverse]);
  const product = graph.op('Mul', [gradient, scaled]);
  const gainGradient = graph.op('ReduceSum', [product, graph.integers(0)], { keepdims: 0 });
  const outer = graph.op('Mul', [gradient, gain]);
  const mean = graph.op('ReduceMean', [graph.op('Mul', [product, gain]), graph.integers(1)], { keepdims: 1 });
  const centred = graph.op('Sub', [outer, graph.op('Mul', [scaled, mean])]);
  return { input: graph.op('Mul', [centred, inverse]), gain: gainGradient };
}
