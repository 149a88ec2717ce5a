import { afterAll, describe, expect, it } from 'vitest';
import { readAdapter } from '../../../../src/engines/embedded/checkpoint/adapter.ts';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { adapterShapes, adapterVector } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { HeadRunner } from '../../../../src/engines/embedded/runner/head-runner.ts';
import { LayerRunner } from '../../../../src/engines/embedded/runner/layer-runner.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';
import { fixtureFolder, fixtureNames, type ReferenceTensor, readReference } from '../checkpoint/reference.ts';
import { type SoftmaxDecision, softmaxDecisions } from './softmax-decisions.ts';

const runtime = await loadRuntime('auto', 1);

/** Largest difference of two lists of numbers. */
function difference(values: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(values.length).toBe(expected.length);
  return Array.from(values).reduce(
    (most, value, index) => Math.max(most, Math.abs(value - (expected[index] as number))),
    0,
  );
}

/** Length of the difference of two vectors, relative to that of the second. */
function distance(values: Float32Array, expected: Float32Array): number {
  const length = (vector: Float32Array) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length(values.map((value, index) => value - (expected[index] as number))) / length(expected);
}

describe.each(fixtureNames)('the checkpoint %s with LoRA', async (name) => {
  const checkpoint = await readCheckpoint(fixtureFolder(name));
  const { architecture } = checkpoint;
  const adapter = await readAdapter(`${fixtureFolder(name)}/adapter`, architecture);
  const { settings, tensors } = await readReference(name);
  const floats = (tensor: string) => (tensors.get(tensor) as ReferenceTensor).data as Float32Array;
  const { shape, data } = tensors.get('tokens') as ReferenceTensor;
  const [rows, time] = shape as [number, number];
  const mask = (tensors.get('mask') as ReferenceTensor).data;
  const tokens = Array.from({ length: rows }, (_, row) =>
    Array.from({ length: time }, (_, at) => Number(data[row * time + at])),
  );
  const lengths = tokens.map(
    (_, row) => tokens[row]?.filter((_, at) => Number(mask[row * time + at]) === 1).length ?? 0,
  );
  const batch = { sequences: tokens.map((all, row) => all.slice(0, lengths[row])), time };
  const layers = new LayerRunner(runtime, checkpoint, adapter);
  const head = await HeadRunner.create(runtime, checkpoint, adapter);
  const vector = adapterVector(architecture, adapter);
  afterAll(async () => {
    await layers.release();
    await head.release();
  });

  /** The tokens after the first of each sequence, with their places in the reference's [rows, time - 1]. */
  const taken: SoftmaxDecision[] = [];
  const places: number[] = [];
  for (const [row, { length }] of batch.sequences.entries())
    for (let at = 0; at + 1 < length; at++) {
      places.push(row * (time - 1) + at);
      taken.push({
        state: row * time + at,
        token: tokens[row]?.[at + 1] as number,
        temperature: settings.temperature,
        legal: null,
      });
    }
  const decisions = softmaxDecisions(taken);
  const pick = (values: Float32Array) => Float32Array.from(places, (place) => values[place] as number);

  it.each([
    ['logits', null],
    ['adapter.logits', vector],
  ] as const)('gives the %s of transformers within 1e-5', async (reference, weights) => {
    const pass = await layers.forward(batch, weights);
    const states = pass.states.at(-1)?.data as Float32Array;
    const positions = batch.sequences.flatMap(({ length }, row) =>
      Array.from({ length }, (_, at) => row * time + at),
    );
    const { logits } = await head.logits({ states, vector: weights }, Int32Array.from(positions));
    const { vocabularySize } = architecture;
    const expected = positions.flatMap((row) =>
      Array.from(floats(reference).subarray(row * vocabularySize, (row + 1) * vocabularySize)),
    );
    expect(difference(logits, expected)).toBeLessThan(1e-5);
    layers.end(pass);
  });

  it('gives the log-probabilities of transformers, and the gradients and the Adam step of PEFT', async () => {
    const slopes = pick(floats('slopes'));
    const gradientAt = async (weights: Float32Array) => {
      const pass = await layers.forward(batch, weights);
      const states = pass.states.at(-1)?.data as Float32Array;
      const before = { states, vector: weights };
      const { logprobs } = await head.probabilities(before, decisions);
      const gradient = new Float32Array(states.length);
      const sum = new TrainedVector(weights, null);
      const given = { logprobs: slopes, entropies: slopes.map(() => 0) };
      await head.addSlopes(before, decisions, given, { gradient, sum });
      await layers.backward(pass, gradient, sum);
      return { logprobs, total: sum.gradient };
    };
    const base = await layers.forward(batch, null);
    const plain = await head.probabilities(
      { states: base.states.at(-1)?.data as Float32Array, vector: null },
      decisions,
    );
    expect(difference(plain.logprobs, pick(floats('logprobs')))).toBeLessThan(1e-5);

    const { logprobs, total } = await gradientAt(vector);
    expect(difference(logprobs, pick(floats('adapter.logprobs')))).toBeLessThan(1e-5);
    for (const tensor of adapterShapes(architecture, adapter)) {
      const own = total.subarray(tensor.offset, tensor.offset + tensor.size);
      expect(distance(own, floats(`gradient.${tensor.name}`)), tensor.name).toBeLessThan(1e-5);
    }
    const trained = new TrainedVector(vector, null);
    trained.add(0, total.slice());
    trained.update({ learningRate: settings.adam.learningRate, scale: 1 });
    const moved = trained.values;
    for (const { name: tensor, offset, size } of adapterShapes(architecture, adapter))
      expect(distance(moved.subarray(offset, offset + size), floats(`after.${tensor}`)), tensor).toBeLessThan(
        1e-4,
      );
    const after = await gradientAt(moved);
    expect(difference(after.logprobs, pick(floats('after.logprobs')))).toBeLessThan(1e-4);
  });
});
