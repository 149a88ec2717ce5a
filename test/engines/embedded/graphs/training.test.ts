import { describe, expect, it } from 'vitest';
import { backwardGraph } from '../../../../src/engines/embedded/graphs/backward-graph.ts';
import { forwardGraph } from '../../../../src/engines/embedded/graphs/forward-graph.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { feedsOf, toMicroBatches } from '../../../../src/engines/embedded/trainer/micro-batches.ts';
import { parameterCount, tensorShapes } from '../../../../src/engines/embedded/weights/architecture.ts';
import { differentiate } from './autodiff-model.ts';

const architecture = {
  vocabularySize: 24,
  width: 16,
  layers: 2,
  heads: 2,
  contextLength: 12,
  previousTokens: 2,
  expansion: 4,
};
const batch = 3;
const time = 8;

function norm(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

describe('the training graphs', () => {
  it('give the logits and, for every tensor, the gradient that automatic differentiation gives (1e-5 relative)', async () => {
    const random = new Random(7);
    const weights = Float32Array.from({ length: parameterCount(architecture) }, () => 0.3 * random.normal());
    const ids = Array.from({ length: batch }, () =>
      Array.from({ length: time }, () => Math.floor(random.uniform() * architecture.vocabularySize)),
    );
    const rows = ids.flatMap((_, row) => [1, 4, 7].map((position) => row * time + position));
    const slope = Float32Array.from({ length: rows.length * architecture.vocabularySize }, () =>
      random.normal(),
    );
    const expected = await differentiate(architecture, weights, ids, rows, slope);

    const runtime = await loadRuntime('auto', 1);
    const [micro] = toMicroBatches(
      ids.map((tokens) => ({
        tokens,
        decisions: [1, 4, 7].map((position) => ({
          position,
          token: 0,
          legal: Int32Array.of(0),
          logprob: null,
          span: {
            start: 1,
            length: 1,
            logprobs: [null],
            sampling: { temperature: 1, topP: 1, topK: 0, minP: 0 },
            constraint: null,
            advantage: 1,
            weight: 1,
          },
        })),
      })),
    );
    if (!micro) throw new Error('no batch');
    const { causal, ...shared } = {
      ...feedsOf(micro, architecture.previousTokens, runtime),
      parameters: runtime.float(weights, [weights.length]),
    };
    const { logits: output, ...tape } = await (await runtime.session(forwardGraph(architecture))).run({
      ...shared,
      causal,
    });
    const logits = output?.data as Float32Array;
    expect(
      norm(logits.map((value, index) => value - (expected.logits[index] as number))) / norm(logits),
    ).toBeLessThan(1e-5);

    const backward = await (await runtime.session(backwardGraph(architecture))).run({
      ...shared,
      ...tape,
      logits_gradient: runtime.float(slope, [rows.length, architecture.vocabularySize]),
    });
    const gradient = backward.gradient?.data as Float32Array;
    for (const { name, offset, size } of tensorShapes(architecture)) {
      const reference = expected.gradients.get(name) as Float32Array;
      const own = gradient.subarray(offset, offset + size);
      expect(norm(reference), name).toBeGreaterThan(0);
      expect(
        norm(own.map((value, index) => value - (reference[index] as number))) / norm(reference),
        name,
      ).toBeLessThan(1e-5);
    }
  });
});
