import { describe, expect, it } from 'vitest';
import { initializeWeights } from '../../../../src/engines/embedded/initial-weights.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { PartialSum, trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { BatchGraphs } from '../../../../src/engines/embedded/runner/batch-runner.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';
import { fullyTrained, vectorLength } from '../../../../src/engines/embedded/weights/architecture.ts';
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
const shapes = trainedShapes(architecture, 'all');

function norm(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

/** Relative to the length of the reference. */
function distance(values: Float32Array, reference: Float32Array): number {
  return norm(values.map((value, index) => value - (reference[index] as number))) / norm(reference);
}

describe('the training graphs of all parameters', () => {
  it('give the logits and, for every tensor, the gradient that automatic differentiation gives (1e-5 relative)', async () => {
    const random = new Random(7);
    const weights = Float32Array.from({ length: vectorLength(shapes) }, () => 0.3 * random.normal());
    const ids = Array.from({ length: batch }, () =>
      Array.from({ length: time }, () => Math.floor(random.uniform() * vocabularySize)),
    );
    const wanted = [[1, 4, 7], [2], [0, 5]];
    const rows = wanted.flatMap((positions, row) => positions.map((position) => row * time + position));
    const slope = Float32Array.from({ length: rows.length * vocabularySize }, () => random.normal());
    const expected = await differentiate(architecture, weights, ids, rows, slope);

    const runtime = await loadRuntime('auto', 1);
    const base = { architecture, weights: initializeWeights(architecture, 1) };
    const graphs = await BatchGraphs.create(runtime, base, 'all');
    const states = Int32Array.from(rows);
    const nothing = new Float32Array();
    const none = {
      states: new Int32Array(),
      tokens: new Int32Array(),
      temperatures: nothing,
      legal: () => null,
    };
    for (const keptLayers of [0, 2]) {
      const tokens = { sequences: ids, time };
      const run = { tokens, vector: weights, keptLayers, softmax: none, others: states };
      await graphs.forward(3, run, new AbortController().signal);
      const { logits, largest, likelihoods } = await graphs.logits(3, states);
      const expectedRows = logitRows(logits, vocabularySize);
      expect(largest).toEqual(expectedRows.largest);
      expect(distance(likelihoods, expectedRows.likelihoods)).toBeLessThan(1e-6);
      expect(distance(logits, expected.logits)).toBeLessThan(1e-5);
      const vector = new TrainedVector(weights, null);
      await graphs.addLogitsGradient(3, states, slope.slice(), vector);
      await graphs.backward(3, { logprobs: nothing, entropies: nothing }, vector);
      for (const { name, offset, size } of shapes) {
        const reference = expected.gradients.get(name) as Float32Array;
        expect(norm(reference), name).toBeGreaterThan(0);
        expect(distance(vector.gradient.subarray(offset, offset + size), reference), name).toBeLessThan(1e-5);
      }
    }
    await expect(
      graphs.backward(3, { logprobs: nothing, entropies: nothing }, new PartialSum()),
    ).rejects.toThrow('no forward pass is kept as 3');
    await graphs.release();
  });
});
