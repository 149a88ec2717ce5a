import { type Dimensions, Graph, type Value } from '../onnx/graph.ts';
import type { Architecture } from '../weights/architecture.ts';
import { outputLogits } from './logit-outputs.ts';
import { gainOf, Norm, scaled } from './normalization.ts';

interface HeadGraphOptions {
  /** Whether the norm is the runtime's own operator: see `LayerGraphOptions`. */
  isFused: boolean;
  /** Whether a backward pass outputs the gradients of the head's norm and matrix. Default false. */
  trainsHead?: boolean;
  /** Whether the forward pass keeps the distribution, as outputs `tape.<part>`, for the backward pass. Default false. */
  keeps?: boolean;
}

/** What the head's forward pass computes for its backward pass: see `HeadGraph.distribution`. */
type HeadTape = Record<
  'scaled' | 'inverse' | 'shifted' | 'likelihoods' | 'total' | 'logTotal' | 'entropy',
  Value
>;

/** Shapes of what the head's forward pass keeps of `rows` decisions, as outputs `tape.<part>`. */
export function keptOfHead({ width, vocabularySize }: Architecture): Record<keyof HeadTape, Dimensions> {
  const perRow: Dimensions = ['rows', 1];
  const perToken: Dimensions = ['rows', vocabularySize];
  return {
    scaled: ['rows', width],
    inverse: perRow,
    shifted: perToken,
    likelihoods: perToken,
    total: perRow,
    logTotal: perRow,
    entropy: perRow,
  };
}

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

  constructor(architecture: Architecture, { isFused, trainsHead = false }: HeadGraphOptions) {
    this.architecture = architecture;
    const { width, vocabularySize, normEpsilon } = architecture;
    const { graph } = this;
    graph.input('state', 'float32', ['rows', width]);
    const { logitScale } = architecture;
    const weights = gainOf(graph, architecture, graph.input('norm', 'float32', [width]));
    // The factor of the logits is a part of the norm's gain, which has the fewest numbers.
    const gain = scaled(graph, weights, logitScale);
    graph.input('embedding', 'float32', [vocabularySize, width]);
    const keepGradient = trainsHead
      ? (gradient: Value) => graph.output('norm.gradient', scaled(graph, gradient, logitScale), [width])
      : null;
    this.norm = new Norm(graph, { gain, epsilon: normEpsilon, keepGradient, isFused });
  }

  /**
   * The distribution of each decision: `shifted` a - max(a) and `likelihoods` exp(shifted), [rows, vocabulary], and for
   * each row the likelihoods' `total`, its logarithm, and the entropy; with them the normed states divided by the
   * temperature. Written out, because WebGPU has no LogSoftmax.
   */
  distribution(): HeadTape {
    const { graph } = this;
    graph.input('inverse_temperature', 'float32', ['rows', 1]);
    graph.input('masks', 'float32', ['sets', this.architecture.vocabularySize]);
    graph.input('sets', 'int64', ['rows']);
    const reduce = (operator: string, values: Value) =>
      graph.op(operator, [values, graph.integers(-1)], { keepdims: 1 });
    const { output: normed, inverse } = this.norm.forward('state');
    const scaled = graph.op('Mul', [normed, 'inverse_temperature']);
    const mask = graph.op('Gather', ['masks', 'sets'], { axis: 0 });
    const adjusted = graph.op('Gemm', [scaled, 'embedding', mask], { transB: 1 });
    const shifted = graph.op('Sub', [adjusted, reduce('ReduceMax', adjusted)]);
    const likelihoods = graph.op('Exp', [shifted]);
    const total = reduce('ReduceSum', likelihoods);
    const logTotal = graph.op('Log', [total]);
    const mean = graph.op('Div', [reduce('ReduceSum', graph.op('Mul', [likelihoods, shifted])), total]);
    const entropy = graph.op('Sub', [logTotal, mean]);
    return { scaled, inverse, shifted, likelihoods, total, logTotal, entropy };
  }

  /** What `headLogprobsGraph` has kept, as inputs. */
  keptDistribution(): HeadTape {
    const { graph } = this;
    graph.input('inverse_temperature', 'float32', ['rows', 1]);
    const shapes = keptOfHead(this.architecture);
    const input = (part: keyof HeadTape) => graph.input(`tape.${part}`, 'float32', shapes[part]);
    return {
      scaled: input('scaled'),
      inverse: input('inverse'),
      shifted: input('shifted'),
      likelihoods: input('likelihoods'),
      total: input('total'),
      logTotal: input('logTotal'),
      entropy: input('entropy'),
    };
  }

  /** Outputs the gradient of the head's matrix: `factor` times the product of [rows, vocabulary] and states [rows, width]. */
  outputMatrixGradient(logitsGradient: Value, states: Value, factor = 1): void {
    const { vocabularySize, width } = this.architecture;
    const gradient = this.graph.op('Gemm', [logitsGradient, states], { transA: 1, alpha: { float: factor } });
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
 * Outputs `logprob` [rows, 1], the log-probabilities of the targets, and `entropy` [rows, 1] in nats, which is
 * `tape.entropy` if the graph keeps the distribution. `targets` is [rows, 1].
 */
export function headLogprobsGraph(architecture: Architecture, options: HeadGraphOptions): Uint8Array {
  const head = new HeadGraph(architecture, options);
  const { graph } = head;
  const kept = keptOfHead(architecture);
  const tape = head.distribution();
  const { shifted, logTotal, entropy } = tape;
  const targets = graph.input('targets', 'int64', ['rows', 1]);
  const taken = graph.op('GatherElements', [shifted, targets], { axis: 1 });
  graph.output('logprob', graph.op('Sub', [taken, logTotal]), ['rows', 1]);
  if (!options.keeps) graph.output('entropy', entropy, ['rows', 1]);
  else
    for (const part of Object.keys(kept) as (keyof HeadTape)[])
      graph.output(`tape.${part}`, tape[part], kept[part]);
  return graph.finish();
}

/**
 * The backward pass of `headLogprobsGraph`, on what it has kept or computed again from the states. Inputs: `targets` [rows],
 * `slope` and `entropy_slope` [rows, 1], dLoss/dlogprob and dLoss/dentropy. Output: `state_gradient` [rows, width]. With
 * `trainsHead` also `norm.gradient`, and the gradient of the head's matrix in two parts: `embedding.gradient`
 * [vocabulary, width], and `target.gradient` [rows, width], to be added to the rows of the targets.
 *
 * With p the probabilities, H the entropy, s and h the slopes: dLoss/da_j = s * ([j = target] - p_j)
 * - h * p_j * (log p_j + H).
 */
export function headSlopesGraph(architecture: Architecture, options: HeadGraphOptions): Uint8Array {
  const head = new HeadGraph(architecture, options);
  const { graph } = head;
  const tape = options.keeps ? head.keptDistribution() : head.distribution();
  const { scaled, inverse, shifted, likelihoods, total, logTotal, entropy } = tape;
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
  if (options.trainsHead) {
    graph.output('target.gradient', graph.op('Mul', [scaled, 'slope']), ['rows', architecture.width]);
    head.outputMatrixGradient(weights, scaled, -1);
  }
  head.outputGradient(graph.op('Mul', [difference, 'inverse_temperature']), inverse);
  return graph.finish();
}

/** Outputs `LogitRows`: for cut-offs, penalties and logits processors, which are computed outside. */
export function headLogitsGraph(architecture: Architecture, options: HeadGraphOptions): Uint8Array {
  const head = new HeadGraph(architecture, options);
  const { output } = head.norm.forward('state');
  const logits = head.graph.op('Gemm', [output, 'embedding'], { transB: 1 });
  outputLogits(head.graph, logits, ['rows', architecture.vocabularySize]);
  return head.graph.finish();
}

/**
 * The backward pass of `headLogitsGraph`. Input: `logits_gradient` [rows, vocabulary]. Output: `state_gradient`; with
 * `trainsHead` also `norm.gradient` and `embedding.gradient`.
 */
export function headLogitsBackwardGraph(architecture: Architecture, options: HeadGraphOptions): Uint8Array {
  const head = new HeadGraph(architecture, options);
  const { graph } = head;
  graph.input('logits_gradient', 'float32', ['rows', architecture.vocabularySize]);
  const { output: normed, inverse } = head.norm.forward('state');
  if (options.trainsHead) head.outputMatrixGradient('logits_gradient', normed);
  head.outputGradient(graph.op('Gemm', ['logits_gradient', 'embedding']), inverse);
  return graph.finish();
}
