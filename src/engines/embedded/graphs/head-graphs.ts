import { Graph, type Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import { outputLogits } from './logit-outputs.ts';
import { gainInput, Norm } from './normalization.ts';

/**
 * The head of a checkpoint, for a chunk of decisions, whose states [rows, width] are the input `state`. Further inputs:
 * `norm` [width] and the head's `embedding` [vocabulary, width].
 *
 * Where the sampling parameters are a temperature and a set of legal tokens, no logits leave the graphs: with the logits
 * z and the temperature T, a = z / T + mask. `inverse_temperature` [rows, 1]; `masks` [sets, vocabulary] has 0 for legal
 * tokens and `maskedLogit` for others, and `sets` [rows] the row of `masks` of each decision; `targets` are the
 * tokens that were taken. All others are computed from the logits.
 */
class HeadGraph {
  readonly graph = new Graph();
  readonly norm: Norm;
  readonly architecture: Architecture;

  /** `keepsGradients`: whether a backward pass outputs `norm.gradient` and `embedding.gradient`. */
  constructor(architecture: Architecture, keepsGradients = false) {
    this.architecture = architecture;
    const { width, vocabularySize, normEpsilon } = architecture;
    const { graph } = this;
    graph.input('state', 'float32', ['rows', width]);
    const gain = gainInput(graph, architecture, 'norm', width);
    graph.input('embedding', 'float32', [vocabularySize, width]);
    const keepGradient = keepsGradients
      ? (gradient: Value) => graph.output('norm.gradient', gradient, [width])
      : null;
    this.norm = new Norm(graph, { gain, epsilon: normEpsilon, keepGradient, isFused: false });
  }

  /** Logits [rows, vocabulary], with what the backward pass through the norm needs. */
  logits(): { logits: Value; normed: Value; inverse: Value } {
    const { output: normed, inverse } = this.norm.forward('state');
    return { logits: this.graph.op('Gemm', [normed, 'embedding'], { transB: 1 }), normed, inverse };
  }

  /**
   * The distribution of each decision: `shifted` a - max(a) and `likelihoods` exp(shifted), [rows, vocabulary], and for
   * each row the likelihoods' `total`, its logarithm, and the entropy. Written out, because WebGPU has no LogSoftmax.
   */
  distribution() {
    const { graph } = this;
    graph.input('inverse_temperature', 'float32', ['rows', 1]);
    graph.input('masks', 'float32', ['sets', this.architecture.vocabularySize]);
    graph.input('sets', 'int64', ['rows']);
    const reduce = (operator: string, values: Value) =>
      graph.op(operator, [values, graph.integers(-1)], { keepdims: 1 });
    const { logits, normed, inverse } = this.logits();
    const mask = graph.op('Gather', ['masks', 'sets'], { axis: 0 });
    const adjusted = graph.op('Add', [graph.op('Mul', [logits, 'inverse_temperature']), mask]);
    const shifted = graph.op('Sub', [adjusted, reduce('ReduceMax', adjusted)]);
    const likelihoods = graph.op('Exp', [shifted]);
    const total = reduce('ReduceSum', likelihoods);
    const logTotal = graph.op('Log', [total]);
    const mean = graph.op('Div', [reduce('ReduceSum', graph.op('Mul', [likelihoods, shifted])), total]);
    const entropy = graph.op('Sub', [logTotal, mean]);
    return { normed, inverse, shifted, likelihoods, total, logTotal, entropy };
  }

  /** Outputs the gradient of the head's matrix, from dLoss/dlogits [rows, vocabulary] and the normed states. */
  outputMatrixGradient(logitsGradient: Value, normed: Value): void {
    const { vocabularySize, width } = this.architecture;
    const gradient = this.graph.op('Gemm', [logitsGradient, normed], { transA: 1 });
    this.graph.output('embedding.gradient', gradient, [vocabularySize, width]);
  }

  /** From the gradient [rows, width] of the normed states to the output `state_gradient`. */
  outputGradient(normedGradient: Value, inverse: Value): void {
    const gradient = this.norm.backward(normedGradient, 'state', inverse);
    this.graph.output('state_gradient', gradient, ['rows', this.architecture.width]);
  }
}

/**
 * The logit added to tokens that are not legal. Their probability is exactly 0, and it is finite, because the entropy
 * multiplies 0 by it.
 */
export const maskedLogit = -1e30;

/**
 * Outputs `logprob` [rows, 1], the log-probabilities of the targets, and `entropy` [rows, 1] in nats. `targets` is
 * [rows, 1].
 */
export function headLogprobsGraph(architecture: Architecture): Uint8Array {
  const head = new HeadGraph(architecture);
  const { graph } = head;
  const { shifted, logTotal, entropy } = head.distribution();
  const targets = graph.input('targets', 'int64', ['rows', 1]);
  const taken = graph.op('GatherElements', [shifted, targets], { axis: 1 });
  graph.output('logprob', graph.op('Sub', [taken, logTotal]), ['rows', 1]);
  graph.output('entropy', entropy, ['rows', 1]);
  return graph.finish();
}

/**
 * The backward pass of `headLogprobsGraph`, computed again from the states. Inputs: `targets` [rows],
 * `slope` and `entropy_slope` [rows, 1], dLoss/dlogprob and dLoss/dentropy. Output: `state_gradient` [rows, width]. With
 * `trainsHead` also `norm.gradient`, and the gradient of the head's matrix in two parts: `embedding.gradient`
 * [vocabulary, width], and `target.gradient` [rows, width], to be added to the rows of the targets.
 *
 * With p the probabilities, H the entropy, s and h the slopes: dLoss/da_j = s * ([j = target] - p_j)
 * - h * p_j * (log p_j + H).
 */
export function headSlopesGraph(architecture: Architecture, trainsHead = false): Uint8Array {
  const head = new HeadGraph(architecture, trainsHead);
  const { graph } = head;
  const { normed, inverse, shifted, likelihoods, total, logTotal, entropy } = head.distribution();
  graph.input('targets', 'int64', ['rows']);
  graph.input('slope', 'float32', ['rows', 1]);
  graph.input('entropy_slope', 'float32', ['rows', 1]);
  // p_j * (s + h * (log p_j + H)), with all that is the same for a row computed for the row.
  const perLikelihood = graph.op('Div', ['entropy_slope', total]);
  const relative = graph.op('Sub', [entropy, logTotal]);
  const constant = graph.op('Add', [
    graph.op('Div', ['slope', total]),
    graph.op('Mul', [perLikelihood, relative]),
  ]);
  const factor = graph.op('Add', [graph.op('Mul', [shifted, perLikelihood]), constant]);
  const weights = graph.op('Mul', [likelihoods, factor]);
  const chosen = graph.op('Mul', [graph.op('Gather', ['embedding', 'targets'], { axis: 0 }), 'slope']);
  const difference = graph.op('Sub', [chosen, graph.op('Gemm', [weights, 'embedding'])]);
  if (trainsHead) {
    const scale = graph.op('Mul', ['slope', 'inverse_temperature']);
    graph.output('target.gradient', graph.op('Mul', [normed, scale]), ['rows', architecture.width]);
    const negative = graph.op('Neg', [graph.op('Mul', [normed, 'inverse_temperature'])]);
    head.outputMatrixGradient(weights, negative);
  }
  head.outputGradient(graph.op('Mul', [difference, 'inverse_temperature']), inverse);
  return graph.finish();
}

/** Outputs `LogitRows`: for cut-offs, penalties and logits processors, which are computed outside. */
export function headLogitsGraph(architecture: Architecture): Uint8Array {
  const head = new HeadGraph(architecture);
  outputLogits(head.graph, head.logits().logits, ['rows', architecture.vocabularySize]);
  return head.graph.finish();
}

/**
 * The backward pass of `headLogitsGraph`. Input: `logits_gradient` [rows, vocabulary]. Output: `state_gradient`; with
 * `trainsHead` also `norm.gradient` and `embedding.gradient`.
 */
export function headLogitsBackwardGraph(architecture: Architecture, trainsHead = false): Uint8Array {
  const head = new HeadGraph(architecture, trainsHead);
  const { graph } = head;
  graph.input('logits_gradient', 'float32', ['rows', architecture.vocabularySize]);
  const { output: normed, inverse } = head.norm.forward('state');
  if (trainsHead) head.outputMatrixGradient('logits_gradient', normed);
  head.outputGradient(graph.op('Gemm', ['logits_gradient', 'embedding']), inverse);
  return graph.finish();
}
