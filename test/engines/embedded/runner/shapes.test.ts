import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  allProjections,
  checkpointTensors,
  projections,
} from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import {
  headLogitsBackwardGraph,
  headLogitsGraph,
  headLogprobsGraph,
  headSlopesGraph,
} from '../../../../src/engines/embedded/graphs/head-graphs.ts';
import {
  layerBackwardGraph,
  layerForwardGraph,
  layerKeepingGraph,
  layerTapeGraph,
} from '../../../../src/engines/embedded/graphs/layer-graphs.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { HeadRunner } from '../../../../src/engines/embedded/runner/head-runner.ts';
import { LayerRunner } from '../../../../src/engines/embedded/runner/layer-runner.ts';
import { inSelection, selectStates } from '../../../../src/engines/embedded/runner/selection.ts';
import {
  keptBytes,
  keptLayers,
  sequencesThatFit,
  trainingBytes,
} from '../../../../src/engines/embedded/runner/training-memory.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';
import { type Architecture, kindOf } from '../../../../src/engines/embedded/weights/architecture.ts';
import { testScale, testSeed } from '../../../support/size.ts';
import { float64Decision, float64States } from './float64-model.ts';
import { type SoftmaxDecision, softmaxDecisions } from './softmax-decisions.ts';

const runtime = await loadRuntime('auto', 1);

const architectures: fc.Arbitrary<Architecture> = fc
  .record({
    vocabularySize: fc.integer({ min: 8, max: 40 }),
    width: fc.integer({ min: 3, max: 14 }),
    layers: fc.integer({ min: 1, max: 3 }),
    heads: fc.constantFrom(1, 2, 3),
    keyValueHeads: fc.constantFrom(1, 2, 3),
    headWidth: fc.constantFrom(2, 4, 6, 16),
    mlpWidth: fc.integer({ min: 2, max: 20 }),
    contextLength: fc.constant(64),
    positions: fc.oneof(
      fc.record({ theta: fc.constantFrom(10, 10_000), scaling: fc.constant(null) }),
      fc.constant('learned' as const),
    ),
    previousTokens: fc.integer({ min: 0, max: 2 }),
    mlp: fc.constantFrom('gated-silu', 'gated-gelu', 'squared-relu'),
    normEpsilon: fc.constantFrom(1e-5, 1e-6),
    normOffset: fc.constantFrom(0, 1),
    outputNorms: fc.boolean(),
    embeddingScale: fc.constantFrom(1, 3.5),
    attentionScale: fc.constantFrom(null, 0.3),
    residualScale: fc.constantFrom(1, 0.4),
    logitScale: fc.constantFrom(1, 0.7),
    joinedGate: fc.boolean(),
    local: fc.option(
      fc.record({
        layers: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
        window: fc.integer({ min: 1, max: 10 }),
        positions: fc.record({ theta: fc.constantFrom(5, 300), scaling: fc.constant(null) }),
      }),
      { nil: null },
    ),
    convolutions: fc.option(
      fc.record({
        layers: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
        taps: fc.integer({ min: 1, max: 4 }),
      }),
      { nil: null },
    ),
    tensorNames: fc.constant('llama'),
    queryKeyNorm: fc.boolean(),
    attentionBias: fc.boolean(),
    tiedEmbeddings: fc.boolean(),
  })
  .map((architecture) => ({
    ...architecture,
    joinedGate: architecture.mlp !== 'squared-relu' && architecture.joinedGate,
    heads: architecture.heads * architecture.keyValueHeads,
    local: architecture.positions === 'learned' ? null : architecture.local,
  }));

const cases = fc.record({
  architecture: architectures,
  trainsAll: fc.boolean(),
  rank: fc.integer({ min: 1, max: 5 }),
  alpha: fc.constantFrom(1, 3, 16),
  targets: fc.subarray([...projections], { minLength: 1 }),
  lengths: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }),
  padding: fc.integer({ min: 0, max: 3 }),
  keptLayers: fc.integer({ min: 0, max: 3 }),
  selects: fc.boolean(),
  temperatures: fc.constantFrom([1], [0, 0.5], [1.7, 1]),
  seed: fc.nat(),
});

describe('layers and head of a checkpoint with LoRA, or with all weights in training', () => {
  it('give, for any shape, the probabilities of a float64 model, and gradients that are their slopes', async () => {
    await fc.assert(
      fc.asyncProperty(
        cases,
        async ({
          rank,
          alpha,
          lengths,
          padding,
          keptLayers,
          selects,
          temperatures,
          seed,
          trainsAll,
          ...rest
        }) => {
          // The sum of the gradients takes rows of whole vectors.
          const width = trainsAll ? 4 * Math.ceil(rest.architecture.width / 4) : rest.architecture.width;
          const architecture = { ...rest.architecture, width };
          const random = new Random(seed);
          const targets = rest.targets.filter((name) => allProjections(architecture).includes(name));
          if (targets.length === 0) targets.push('down_proj');
          const lora = { rank, alpha, targets };
          const draw = (count: number, scale: number, mean = 0) =>
            Float32Array.from({ length: count }, () => mean + scale * random.normal());
          const weights = new Map(
            checkpointTensors(architecture).map(({ name, dimensions }) => {
              const size = dimensions.reduce((product, dimension) => product * dimension, 1);
              const gain = 1 - architecture.normOffset;
              return [name, name.endsWith('norm.weight') ? draw(size, 0.2, gain) : draw(size, 0.4)];
            }),
          );
          const trained = trainsAll ? 'all' : lora;
          const shapes = trainedShapes(architecture, trained);
          const vector = draw(
            shapes.reduce((sum, { size }) => sum + size, 0),
            trainsAll ? 0.05 : 0.3,
          );
          if (trainsAll)
            for (const { name, offset, size } of shapes)
              for (let at = 0; at < size; at++)
                vector[offset + at] = (vector[offset + at] as number) + (weights.get(name)?.[at] as number);
          const { vocabularySize } = architecture;
          const token = () => Math.floor(random.uniform() * vocabularySize);
          const sequences = lengths.map((length) => Array.from({ length }, token));
          const time = Math.max(...lengths) + padding;
          const sets = [null, Int32Array.from({ length: vocabularySize >> 1 }, (_, index) => 2 * index + 1)];
          const decisions: SoftmaxDecision[] = [];
          for (const [row, sequence] of sequences.entries())
            for (const at of sequence.keys()) {
              if (decisions.length > 0 && random.uniform() < 0.3) continue;
              const legal = sets[Math.floor(random.uniform() * sets.length)] ?? null;
              const taken = legal ? (legal[Math.floor(random.uniform() * legal.length)] as number) : token();
              const temperature = temperatures[at % temperatures.length] as number;
              decisions.push({ state: row * time + at, token: taken, temperature, legal });
            }
          const slopes = { logprobs: draw(decisions.length, 1), entropies: draw(decisions.length, 1) };

          const tensorsOf = (adapter: ArrayLike<number>) => {
            const tensors = new Map<string, ArrayLike<number>>(weights);
            for (const { name, offset, size } of shapes)
              tensors.set(
                name,
                Array.from({ length: size }, (_, at) => adapter[offset + at] as number),
              );
            return tensors;
          };
          const reference = (adapter: ArrayLike<number>) => {
            const tensors = tensorsOf(adapter);
            const states = sequences.map((tokens) => float64States(architecture, tensors, lora, tokens));
            return decisions.map((decision) => {
              const { state: place } = decision;
              const state = states[Math.floor(place / time)]?.[place % time] as number[];
              return float64Decision(architecture, tensors, state, decision);
            });
          };
          const loss = (adapter: ArrayLike<number>) =>
            reference(adapter).reduce(
              (sum, { logprob, entropy }, index) =>
                sum +
                logprob * (slopes.logprobs[index] as number) +
                entropy * (slopes.entropies[index] as number),
              0,
            );

          const base = { architecture, weights };
          const layers = new LayerRunner(runtime, base, trained);
          const head = await HeadRunner.create(runtime, base, trained);
          try {
            const tapes = keptLayers > 0 ? [] : null;
            const all = softmaxDecisions(decisions);
            const canSelect = kindOf(architecture, architecture.layers - 1) === 'attention';
            const selection =
              selects && canSelect ? selectStates([all.states], sequences.length, time) : null;
            const plain = selection ? { ...all, states: inSelection(selection, all.states) } : all;
            const pass = await layers.forward({ sequences, time }, vector, { keptLayers, selection });
            const states = pass.states.at(-1)?.data as Float32Array;
            const before = { states, vector };
            const { logprobs, entropies } = await head.probabilities(before, plain, { tapes });
            for (const [index, { logprob, entropy }] of reference(vector).entries()) {
              expect(Math.abs((logprobs[index] as number) - logprob)).toBeLessThan(
                2e-4 * (1 + Math.abs(logprob)),
              );
              expect(Math.abs((entropies[index] as number) - entropy)).toBeLessThan(2e-4);
            }
            const gradient = new Float32Array(states.length);
            const sum = new TrainedVector(vector, null);
            await head.addSlopes(before, plain, slopes, { gradient, sum, tapes: tapes ?? [] });
            await layers.backward(pass, gradient, sum);
            const total = sum.gradient;
            // The slope along the gradient itself and along a random direction, by central differences in float64.
            const length = Math.sqrt(total.reduce((sum, value) => sum + value * value, 0));
            for (const direction of [total.map((value) => value / (length || 1)), draw(total.length, 1)]) {
              const size = Math.sqrt(direction.reduce((sum, value) => sum + value * value, 0)) || 1;
              const move = (step: number) =>
                Float64Array.from(vector, (value, at) => value + (step * (direction[at] as number)) / size);
              // A longer step measures the curvature of steep shapes too.
              const numeric = (loss(move(1e-7)) - loss(move(-1e-7))) / 2e-7;
              const own = total.reduce(
                (sum, value, at) => sum + (value * (direction[at] as number)) / size,
                0,
              );
              // The floor is the rounding of float32: one token alone has no slope in q_proj and k_proj at all.
              expect(Math.abs(own - numeric)).toBeLessThan(1e-3 * length + 1e-5);
            }
          } finally {
            await layers.release();
            await head.release();
          }
        },
      ),
      { numRuns: 40 * testScale, seed: testSeed },
    );
  });
});

describe('the graphs of checkpoints', () => {
  it('have no operator that WebGPU lacks (FusedMatMul, LogSoftmax) or miscomputes (SimplifiedLayerNormalization)', () => {
    const [drawn] = fc.sample(architectures, { numRuns: 1, seed: 1 }) as [Architecture];
    const architecture = { ...drawn, convolutions: { layers: [true], taps: 3 } };
    const trained = { targets: projections, scale: 2 };
    const graphs = [
      ...(['attention', 'convolution'] as const).flatMap((kind) =>
        [layerForwardGraph, layerBackwardGraph, layerKeepingGraph, layerTapeGraph].map((build) =>
          build(architecture, { trained, isFused: false, selects: false, kind }),
        ),
      ),
      ...[headLogprobsGraph, headSlopesGraph, headLogitsGraph, headLogitsBackwardGraph].map((build) =>
        build(architecture, { isFused: false }),
      ),
    ];
    for (const graph of graphs)
      expect(Buffer.from(graph).toString('latin1')).not.toMatch(/FusedMatMul|LogSoftmax|LayerNormalization/);
  });
});

describe('the memory that training needs', () => {
  it('lets as many layers keep their values as fit beside it', () => {
    const [drawn] = fc.sample(architectures, { numRuns: 1, seed: 1 }) as [Architecture];
    const architecture = { ...drawn, convolutions: null };
    const size = { sequences: 2, time: 32 };
    const { heads, keyValueHeads, headWidth, mlpWidth, mlp, width, queryKeyNorm, outputNorms } = architecture;
    const perToken =
      2 + width + (mlp === 'squared-relu' ? 1 : 2) * mlpWidth + 2 * (heads + keyValueHeads) * headWidth;
    const norms = queryKeyNorm ? (heads + keyValueHeads) * (headWidth + 1) : 0;
    const ofOutputs = outputNorms ? 2 * (width + 1) : 0;
    const attention = heads * size.time;
    expect(keptBytes(architecture, size)).toBe(4 * 64 * (perToken + norms + ofOutputs + attention));
    const convolved = { ...architecture, convolutions: { layers: [true, true, true], taps: 3 } };
    const ofMlp = (mlp === 'squared-relu' ? 1 : 2) * mlpWidth;
    expect(keptBytes(convolved, size)).toBe(4 * 64 * (2 + 5 * width + ofMlp + ofOutputs));
    const mixed = { ...architecture, layers: 2, convolutions: { layers: [true, false], taps: 3 } };
    const most = Math.max(keptBytes(architecture, size), keptBytes(convolved, size));
    expect(keptBytes(mixed, size)).toBe(most);
    // Each kind of layer has sessions with memory of their own.
    const both = trainingBytes(mixed, size);
    for (const one of [architecture, convolved])
      expect(both).toBeGreaterThan(trainingBytes({ ...one, layers: 2 }, size));
    const beside = (bytes: number) =>
      keptLayers(
        { ...architecture, layers: 5 },
        size,
        2 * trainingBytes({ ...architecture, layers: 5 }, size) + bytes,
      );
    const one = keptBytes(architecture, size);
    expect([-1, one - 1, one, 3 * one, 100 * one].map(beside)).toEqual([0, 0, 1, 3, 5]);
  });

  it('decides how many sequences run together, and refuses one that does not fit with the sum', () => {
    const [architecture] = fc.sample(architectures, { numRuns: 1, seed: 1 }) as [Architecture];
    const bytes = trainingBytes(architecture, { sequences: 5, time: 32 });
    expect(sequencesThatFit(architecture, 32, bytes)).toBe(5);
    expect(trainingBytes(architecture, { sequences: 1, time: 8192 })).toBeGreaterThan(
      20 * trainingBytes(architecture, { sequences: 1, time: 512 }),
    );
    expect(() => sequencesThatFit(architecture, 4096, bytes)).toThrow(
      /a sequence of 4096 tokens needs \d+\.\d\d GB beside the weights, and 0\.03 GB are allowed/,
    );
  });
});
