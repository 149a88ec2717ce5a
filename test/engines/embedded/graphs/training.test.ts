import { describe, expect, it } from 'vitest';
import { backwardGraph } from '../../../../src/engines/embedded/graphs/backward-graph.ts';
import { forwardGraph } from '../../../../src/engines/embedded/graphs/forward-graph.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import {
  distributionOf,
  gatherLogits,
  type LogitRows,
} from '../../../../src/engines/embedded/sampling/distribution.ts';
import { parameterFeeds } from '../../../../src/engines/embedded/trainer/graph-runner.ts';
import { feedsOf, toMicroBatches } from '../../../../src/engines/embedded/trainer/micro-batches.ts';
import { addOutputs } from '../../../../src/engines/embedded/trainer/passes.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';
import {
  fullyTrained,
  parameterCount,
  tensorShapes,
} from '../../../../src/engines/embedded/weights/architecture.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { logitRows } from '../logit-rows.ts';
import { differentiate } from './autodiff-model.ts';

const architecture = fullyTrained({
  vocabularySize: 24,
  width: 16,
  layers: 2,
  heads: 2,
  contextLength: 12,
  previousTokens: 2,
});
const batch = 3;
const time = 8;
const { vocabularySize } = architecture;

function norm(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

/** Relative to the length of the reference. */
function distance(values: Float32Array, reference: Float32Array): number {
  return norm(values.map((value, index) => value - (reference[index] as number))) / norm(reference);
}

describe('the training graphs', () => {
  it('give the logits and, for every tensor, the gradient that automatic differentiation gives (1e-5 relative)', async () => {
    const random = new Random(7);
    const weights = Float32Array.from({ length: parameterCount(architecture) }, () => 0.3 * random.normal());
    const ids = Array.from({ length: batch }, () =>
      Array.from({ length: time }, () => Math.floor(random.uniform() * vocabularySize)),
    );
    const wanted = [[1, 4, 7], [2], [0, 5]];
    const rows = wanted.flatMap((positions, row) => positions.map((position) => row * time + position));
    const slope = Float32Array.from({ length: rows.length * vocabularySize }, () => random.normal());
    const expected = await differentiate(architecture, weights, ids, rows, slope);

    const runtime = await loadRuntime('auto', 1);
    const [micro] = toMicroBatches(
      ids.map((tokens, row) => ({
        tokens,
        decisions: (wanted[row] as number[]).map((position) => ({
          position,
          token: 0,
          logprob: null,
          span: {
            start: 1,
            length: 1,
            logprobs: [null],
            sampling: plainSampling,
            constraint: null,
            advantage: 1,
            weight: 1,
          },
          softmaxSupport: () => null,
          distribution: ({ logits }: LogitRows, row: number) =>
            distributionOf(gatherLogits(logits, row * vocabularySize, Int32Array.of(0)), plainSampling),
        })),
      })),
    );
    if (!micro) throw new Error('no batch');
    const { shared, causal, sources } = feedsOf(micro, architecture.previousTokens, runtime);
    const feeds = { ...shared, ...parameterFeeds(weights, architecture, runtime) };
    const forward = await runtime.session(forwardGraph(architecture));
    const { logits, largest, likelihoods, ...tape } = await forward.run({ ...feeds, causal });
    const padded = logits?.data as Float32Array;
    const expectedRows = logitRows(padded, vocabularySize);
    expect(largest?.data).toEqual(expectedRows.largest);
    expect(distance(likelihoods?.data as Float32Array, expectedRows.likelihoods)).toBeLessThan(1e-6);
    const paddedSlope = new Float32Array(padded.length);
    micro.decisions.flat().forEach(({ row }, index) => {
      const own = padded.subarray(row * vocabularySize, (row + 1) * vocabularySize);
      const from = index * vocabularySize;
      expect(distance(own, expected.logits.subarray(from, from + vocabularySize))).toBeLessThan(1e-5);
      paddedSlope.set(slope.subarray(from, from + vocabularySize), row * vocabularySize);
    });

    const backward = await runtime.session(backwardGraph(architecture));
    const outputs = await backward.run({
      ...feeds,
      ...tape,
      sources,
      logits_gradient: runtime.float(paddedSlope, [batch * micro.picks, vocabularySize]),
    });
    const gradients = Object.fromEntries(
      Object.entries(outputs).map(([name, { data }]) => [name, data as Float32Array]),
    );
    const vector = new TrainedVector(weights, null);
    addOutputs(vector, architecture, micro, gradients);
    for (const { name, offset, size } of tensorShapes(architecture)) {
      const reference = expected.gradients.get(name) as Float32Array;
      expect(norm(reference), name).toBeGreaterThan(0);
      expect(distance(vector.gradient.subarray(offset, offset + size), reference), name).toBeLessThan(1e-5);
    }
  });
});
