import type { Graph, Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';

/** Constants of the tanh form of GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415): sqrt(2 / pi), and the factor of the cube. */
const [root, cube] = [Math.sqrt(2 / Math.PI), 0.044715];

/**
 * The function of an MLP's gate, x * s with s = sigmoid(u(x)), and its derivative s + x * s * (1 - s) * u'(x). For the
 * SiLU, u(x) = x; for the GELU by tanh, u(x) = 2 * root * (x + cube * x^3), because (1 + tanh(z)) / 2 = sigmoid(2 z).
 */
export function applyGate(
  graph: Graph,
  { mlp }: Pick<Architecture, 'mlp'>,
  input: Value,
): { output: Value; slope: () => Value } {
  const isGelu = mlp === 'gated-gelu';
  const square = isGelu ? graph.op('Mul', [input, input]) : '';
  /** 2 * root * (1 + factor * cube * x^2). */
  const polynomial = (factor: number) => {
    const scaled = graph.op('Mul', [square, graph.scalar(2 * root * factor * cube)]);
    return graph.op('Add', [scaled, graph.scalar(2 * root)]);
  };
  const sigmoid = graph.op('Sigmoid', [isGelu ? graph.op('Mul', [input, polynomial(1)]) : input]);
  const output = graph.op('Mul', [input, sigmoid]);
  const slope = () => {
    const rest = graph.op('Sub', [graph.scalar(1), sigmoid]);
    const bend = graph.op('Mul', [output, rest]);
    return graph.op('Add', [sigmoid, isGelu ? graph.op('Mul', [bend, polynomial(3)]) : bend]);
  };
  return { output, slope };
}
