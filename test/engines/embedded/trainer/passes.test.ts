import { afterAll, describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { builtInLanguage } from '../../../../src/engines/embedded/built-in/built-in-language.ts';
import { checkpointTensors, projections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { ConversationCodec } from '../../../../src/engines/embedded/conversation-codec.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { adapterShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { BatchGraphs } from '../../../../src/engines/embedded/runner/batch-runner.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { BatchLoss } from '../../../../src/engines/embedded/trainer/batch-loss.ts';
import {
  type Decision,
  findDecisions,
  type TrainingSequence,
} from '../../../../src/engines/embedded/trainer/decisions.ts';
import {
  type MicroBatch,
  sequencesOf,
  toMicroBatches,
} from '../../../../src/engines/embedded/trainer/micro-batches.ts';
import { TrainingPasses } from '../../../../src/engines/embedded/trainer/passes.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';
import { type Architecture, usualOptions } from '../../../../src/engines/embedded/weights/architecture.ts';
import { type LossConfig, plainSampling, resolveRlConfig } from '../../../../src/learning/index.ts';

const architecture: Architecture = {
  vocabularySize: 512,
  width: 24,
  layers: 3,
  heads: 4,
  keyValueHeads: 2,
  headWidth: 8,
  mlpWidth: 40,
  contextLength: 256,
  positions: { theta: 10_000, scaling: null },
  previousTokens: 0,
  mlp: 'gated-silu',
  ...usualOptions,
  // Shorter than the sequences.
  local: { layers: [true, false, false], window: 6, positions: { theta: 100, scaling: null } },
  convolutions: { layers: [false, true, false], taps: 4 },
  normEpsilon: 1e-6,
  queryKeyNorm: true,
  attentionBias: false,
  tiedEmbeddings: true,
};
const lora = { rank: 4, alpha: 8, targets: projections };
const random = new Random(5);
const draw = (count: number, scale: number, mean = 0) =>
  Float32Array.from({ length: count }, () => mean + scale * random.normal());
const weights = new Map(
  checkpointTensors(architecture).map(({ name, dimensions }) => {
    const size = dimensions.reduce((product, dimension) => product * dimension, 1);
    return [name, name.endsWith('norm.weight') ? draw(size, 0.1, 1) : draw(size, 0.25)];
  }),
);
const adapter = draw(
  adapterShapes(architecture, lora).reduce((sum, { size }) => sum + size, 0),
  0.1,
);
const codec = new ConversationCodec(new Map(), builtInLanguage());
const { signal } = new AbortController();
const graphs = await BatchGraphs.create(await loadRuntime('auto', 1), { architecture, weights }, lora);
afterAll(() => graphs.release());

const batchesOf = (sequences: readonly TrainingSequence[], bytes = 1e9) =>
  toMicroBatches(sequences, { architecture, bytes, keepsLayers: true, isShared: false });
const passesOf = (batches: readonly MicroBatch[]) => new TrainingPasses(batches, [graphs]);

/** Replies of letters, each with its own sampling parameters and advantage. */
function drawSequences(settings: readonly Partial<typeof plainSampling>[]): Promise<TrainingSequence[]> {
  const letter = () => 97 + Math.floor(random.uniform() * 26);
  return Promise.all(
    settings.map((sampling, index) => {
      const length = 4 + 3 * index;
      return findDecisions(
        {
          tokens: Array.from({ length: length + 5 }, letter),
          spans: [
            {
              start: 3,
              length,
              logprobs: Array.from({ length }, () => (index % 2 === 0 ? null : -5 - random.uniform())),
              sampling: { ...plainSampling, ...sampling },
              constraint: null,
              advantage: index % 2 === 0 ? 1 : -0.5,
              weight: 1 / length,
            },
          ],
        },
        codec,
      );
    }),
  );
}

/** A padded micro-batch of one sequence. */
const alone = (sequence: TrainingSequence, keptLayers: number): MicroBatch => {
  const { length: shared } = sequence.tokens;
  const branches = { shared, starts: [shared] };
  return {
    rows: [{ tokens: sequence.tokens, sequences: [sequence], branches }],
    time: shared + 2,
    keptLayers,
  };
};

/** The same sequences, whose distributions are all computed outside the graphs. */
const outside = (sequences: readonly TrainingSequence[]): TrainingSequence[] =>
  sequences.map(({ tokens, decisions }) => ({
    tokens,
    decisions: decisions.map((decision) => {
      const { position, token, logprob, span } = decision;
      const distribution: Decision['distribution'] = (rows, row) => decision.distribution(rows, row);
      return { position, token, logprob, span, distribution, isSoftmax: false, softmaxSupport: () => null };
    }),
  }));

async function gradientOf(
  batches: readonly MicroBatch[],
  vector: Float32Array,
  loss: BatchLoss,
  options: { signal: AbortSignal } = { signal },
): Promise<Float32Array> {
  const sum = new TrainedVector(vector, null);
  await passesOf(batches).addGradient(vector, loss, sum, options);
  return sum.gradient;
}

async function train(sequences: readonly TrainingSequence[], config: LossConfig, vector = adapter) {
  const loss = new BatchLoss(config, null);
  const batches = batchesOf(sequences);
  const gradient = await gradientOf(batches, vector, loss);
  return { gradient, metrics: loss.metrics() };
}

const length = (vector: Float32Array) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));

describe('a checkpoint in training', () => {
  it.each([
    ['an entropy bonus', { entropy_coefficient: 0.3 }],
    ['PPO by sequence', { ppo: true, epsilon: 0.9, epsilon_high: 9, importance_sampling_level: 'sequence' }],
  ] as const)('has the same loss and gradient in the graphs and outside them: %s', async (_, given) => {
    const { loss } = resolveRlConfig(rlConfigSchema.parse(given), { learningRate: 1 });
    const sequences = await drawSequences([
      {},
      { temperature: 0.7 },
      { temperature: 0 },
      { minTokens: { count: 3, barred: [97, 98] } },
    ]);
    expect(sequences.every(({ decisions }) => decisions.every((decision) => decision.softmaxSupport()))).toBe(
      true,
    );
    const inside = await train(sequences, loss);
    const expected = await train(outside(sequences), loss);
    for (const [name, value] of Object.entries(expected.metrics))
      expect(inside.metrics[name], name).toBeCloseTo(value, 4);
    const difference = inside.gradient.map((value, index) => value - (expected.gradient[index] as number));
    expect(length(difference)).toBeLessThan(1e-4 * length(expected.gradient));
  });

  it('has the gradient that its loss has by differences, under penalties, biases and temperatures', async () => {
    const config: LossConfig = { type: 'cross_entropy' };
    const sequences = await drawSequences([
      { repetitionPenalty: 1.3 },
      { frequencyPenalty: 0.4, presencePenalty: 0.2, temperature: 0.8 },
      {
        logitBias: [
          [99, 2],
          [100, -1],
        ],
      },
      { temperature: 1.4 },
    ]);
    expect(sequences[0]?.decisions[0]?.softmaxSupport()).toBeNull();
    const { gradient } = await train(sequences, config);
    const norm = length(gradient);
    const lossAt = async (step: number) => {
      const moved = adapter.map((value, index) => value + (step * (gradient[index] as number)) / norm);
      return (await train(sequences, config, moved)).metrics.loss as number;
    };
    const numeric = ((await lossAt(5e-3)) - (await lossAt(-5e-3))) / 1e-2;
    expect(Math.abs(numeric / norm - 1)).toBeLessThan(5e-3);
  });

  it('learns a cut-off distribution: top-k, top-p and min-p', async () => {
    const sequences = await drawSequences([{ topK: 40 }, { topP: 0.9 }, { minP: 0.01, temperature: 0.9 }]);
    const config: LossConfig = { type: 'cross_entropy' };
    const before = await train(sequences, config);
    const scale = 0.05 / length(before.gradient);
    const moved = adapter.map((value, index) => value - scale * (before.gradient[index] as number));
    const after = await train(sequences, config, moved);
    expect(after.metrics.loss).toBeLessThan(before.metrics.loss as number);
  });

  it('gives the log-probabilities of the base model without the adapter, in the order of the batches', async () => {
    const sequences = await drawSequences([{}, { topK: 5 }, { temperature: 0.5 }]);
    const batches = batchesOf(sequences);
    const base = await passesOf(batches).logprobs(null, signal);
    const zero = await passesOf(batches).logprobs(new Float32Array(adapter.length), signal);
    const adapted = await passesOf(batches).logprobs(adapter, signal);
    expect(base).toHaveLength(batches.flatMap(sequencesOf).flatMap(({ decisions }) => decisions).length);
    for (const [index, logprob] of base.entries()) expect(zero[index]).toBeCloseTo(logprob, 5);
    expect(
      Math.max(...base.map((logprob, index) => Math.abs(logprob - (adapted[index] as number)))),
    ).toBeGreaterThan(1e-2);
  });

  it('has the same log-probabilities and gradient, whether sequences share their first tokens in a row or not', async () => {
    const config: LossConfig = { type: 'cross_entropy' };
    const sequences = await drawSequences(new Array(8).fill({}));
    const [first, second] = [sequences[6]?.tokens ?? [], sequences[7]?.tokens ?? []];
    for (const [index, { tokens }] of sequences.entries()) {
      const prompt = index % 3 === 0 ? first : second;
      for (let at = 0; at < Math.min(2 + index, tokens.length); at++) tokens[at] = prompt[at] as number;
    }
    const batches = batchesOf(sequences);
    const rows = batches.flatMap((batch) => batch.rows);
    expect(rows.length).toBeLessThan(sequences.length);
    expect(sequencesOf({ rows, time: 0, keptLayers: 0 })).toHaveLength(sequences.length);
    const apart = batches.flatMap(sequencesOf).map((sequence) => alone(sequence, 0));
    const [together, each] = [
      await passesOf(batches).logprobs(adapter, signal),
      await passesOf(apart).logprobs(adapter, signal),
    ];
    for (const [index, logprob] of each.entries()) expect(together[index]).toBeCloseTo(logprob, 4);
    const gradient = await gradientOf(batches, adapter, new BatchLoss(config, null));
    const expected = await gradientOf(apart, adapter, new BatchLoss(config, null));
    const difference = gradient.map((value, index) => value - (expected[index] as number));
    expect(length(difference)).toBeLessThan(1e-5 * length(expected));
  });

  it('has the same gradient in one micro-batch and in several, whatever layers keep, and refuses a sequence that does not fit', async () => {
    const config: LossConfig = { type: 'cross_entropy' };
    const sequences = await drawSequences([{}, {}, {}, {}]);
    const { gradient } = await train(sequences, config);
    const several = sequences.map((sequence, index) => alone(sequence, index % 3));
    const other = await gradientOf(several, adapter, new BatchLoss(config, null));
    expect(length(other.map((value, index) => value - (gradient[index] as number)))).toBeLessThan(
      1e-5 * length(gradient),
    );
    expect(() => batchesOf(sequences, 1e5)).toThrow(/needs .* GB beside the weights/);
    const aborted = AbortSignal.abort(new Error('the training was cancelled'));
    await expect(
      gradientOf(several, adapter, new BatchLoss(config, null), { signal: aborted }),
    ).rejects.toThrow('cancelled');
  });
});
