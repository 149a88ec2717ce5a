import type { Graph, Value } from '../onnx/graph.ts';
import { outputLogits } from './logit-outputs.ts';

/** Numbers of the element types for the operator `Cast`. */
const castTo = { float32: 1, int64: 7, float64: 11 } as const;

/** `uniforms` are whole numbers below this. */
export const uniformSteps = 2 ** 32;

/**
 * Lets a graph choose tokens, so that logits leave it only for the rows that need them: at 150,000 tokens, copying them
 * and adding up their likelihoods in JavaScript takes longer than many models need to compute them.
 *
 * `logits` [rows, vocabulary] are divided by the temperature already. Inputs: `token_mask` [1 or rows, vocabulary], which has
 * 0 for the legal tokens and `maskedLogit` for the others, and the inputs that each method adds.
 */
export function outputChoices(graph: Graph, logits: Value, vocabularySize: number): void {
  graph.input('token_mask', 'float32', ['masks', vocabularySize]);
  const masked = graph.op('Add', [logits, 'token_mask']);
  const probabilities = graph.op('Softmax', [masked], { axis: -1 });
  outputDrawn(graph, probabilities, vocabularySize);
  outputLikeliest(graph, masked, probabilities);
  graph.input('whole', 'int64', ['whole rows']);
  outputLogits(graph, graph.op('Gather', [logits, 'whole'], { axis: 0 }), ['whole rows', vocabularySize]);
}

/**
 * Outputs `drawn` [rows, 2]: a token and its probability. The input `uniforms` [rows, 1], each from 0 to
 * `uniformSteps` - 1, chooses it by the inverse of the cumulative distribution: first a block of tokens by the sums of
 * the blocks, then a token of that block.
 */
function outputDrawn(graph: Graph, probabilities: Value, vocabularySize: number): void {
  const size = blockSize(vocabularySize);
  const exact = (value: Value) => graph.op('Cast', [value], { to: castTo.float64 });
  const index = (value: Value) => graph.op('Cast', [value], { to: castTo.int64 });
  const total = (values: Value) => graph.op('ReduceSum', [values, graph.integers(-1)], { keepdims: 1 });
  /** Number and sum of the leading values of each row whose sum is at most `limit`. */
  const countUpTo = (values: Value, limit: Value) => {
    const sums = graph.op('CumSum', [values, graph.integers(1)]);
    const isBelow = exact(graph.op('LessOrEqual', [sums, limit]));
    const below = graph.op('ReduceMax', [graph.op('Mul', [sums, isBelow]), graph.integers(-1)], {
      keepdims: 1,
    });
    return { count: total(isBelow), below };
  };
  const apart = graph.op('Reshape', [probabilities, graph.integers(-1, vocabularySize / size, size)]);
  const sums = exact(graph.op('ReduceSum', [apart, graph.integers(-1)], { keepdims: 0 }));
  graph.input('uniforms', 'int64', ['rows', 1]);
  const uniform = graph.op('Mul', [exact('uniforms'), exact(graph.scalar(1 / uniformSteps))]);
  const limit = graph.op('Mul', [uniform, total(sums)]);
  const { count: block, below } = countUpTo(sums, limit);
  const values = exact(graph.op('GatherND', [apart, index(block)], { batch_dims: 1 }));
  const blockSum = graph.op('GatherElements', [sums, index(block)], { axis: 1 });
  const share = graph.op('Div', [graph.op('Sub', [limit, below]), blockSum]);
  // Rounding may make it 1, at which no token is left.
  const bounded = graph.op('Min', [share, exact(graph.scalar(1 - 2 ** -24))]);
  const { count: place } = countUpTo(values, graph.op('Mul', [bounded, total(values)]));
  const probability = graph.op('GatherElements', [values, index(place)], { axis: 1 });
  const token = graph.op('Add', [graph.op('Mul', [block, exact(graph.scalar(size))]), place]);
  const drawn = graph.op('Concat', [token, probability], { axis: 1 });
  graph.output('drawn', graph.op('Cast', [drawn], { to: castTo.float32 }), ['rows', 2]);
}

/**
 * Outputs the `count` [1] likeliest tokens of the rows `ranked` [ranked rows], likeliest first, among equals the lowest
 * id first: `likeliest` [ranked rows, count] their ids, `likeliest_logits` their logits with the mask, and
 * `likeliest_probabilities`.
 */
function outputLikeliest(graph: Graph, masked: Value, probabilities: Value): void {
  graph.input('ranked', 'int64', ['ranked rows']);
  graph.input('count', 'int64', [1]);
  const dimensions = ['ranked rows', 'count'];
  const rowsOf = (values: Value) => graph.op('Gather', [values, 'ranked'], { axis: 0 });
  const [logits, ids] = graph.ops('TopK', [rowsOf(masked), 'count'], { axis: -1 }, 2) as [Value, Value];
  const chances = graph.op('GatherElements', [rowsOf(probabilities), ids], { axis: 1 });
  graph.output('likeliest', graph.op('Cast', [ids], { to: castTo.float32 }), dimensions);
  graph.output('likeliest_logits', logits, dimensions);
  graph.output('likeliest_probabilities', chances, dimensions);
}

/** The divisor of the size nearest to its root, by ratio: so few blocks, and so few tokens of a block, are added up. */
function blockSize(vocabularySize: number): number {
  let size = Math.floor(Math.sqrt(vocabularySize));
  while (vocabularySize % size > 0) size--;
  return size;
}
