import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { BaseModels } from '../../../../src/engines/embedded/base-models.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { BatchGraphs } from '../../../../src/engines/embedded/runner/batch-runner.ts';
import { trainingBytes } from '../../../../src/engines/embedded/runner/training-memory.ts';
import type { Runtime } from '../../../../src/engines/embedded/runtime.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { BatchLoss } from '../../../../src/engines/embedded/trainer/batch-loss.ts';
import { findDecisions } from '../../../../src/engines/embedded/trainer/decisions.ts';
import { toMicroBatches } from '../../../../src/engines/embedded/trainer/micro-batches.ts';
import { TrainingPasses } from '../../../../src/engines/embedded/trainer/passes.ts';
import { TrainedVector } from '../../../../src/engines/embedded/trainer/trained-vector.ts';
import type { TrainingBatch } from '../../../../src/engines/engine.ts';
import type { Constraint } from '../../../../src/language/grammar/constraint.ts';
import {
  type Datum,
  klPenaltyShifts,
  type LossConfig,
  plainSampling,
  resolveRlConfig,
} from '../../../../src/learning/index.ts';
import { sharedFolder } from '../../../support/files.ts';
import { adapterOfTests, codecOfTokens, modelIn, randomModel } from '../checkpoint/models.ts';
import { fixtureFolder, fixtureNames } from '../checkpoint/reference.ts';
import { runtime, codec as text } from '../sampler/support.ts';
import { Bench, batchOf, openTrainer, base as tinyBase } from '../support.ts';

const lossOf = (given: Record<string, unknown>): LossConfig =>
  resolveRlConfig(rlConfigSchema.parse(given), { learningRate: 1 }).loss;
const { signal } = new AbortController();

/** Replies of different lengths, sampling parameters and advantages. */
function datumsOf(seed: number, vocabularySize: number): Datum<Constraint>[] {
  const random = new Random(seed);
  const settings = [{}, { temperature: 0.8 }, { topK: vocabularySize - 1 }, { frequencyPenalty: 0.3 }];
  return settings.map((sampling, index) => {
    const length = 4 + 3 * index;
    const span = {
      start: 3,
      length,
      logprobs: Array.from({ length }, () => -5.5 - random.uniform()),
      sampling: { ...plainSampling, ...sampling },
      constraint: null,
      advantage: index % 2 === 0 ? 1 : -0.5,
      weight: 1 / length,
    };
    const tokens = Array.from({ length: length + 4 }, () => Math.floor(random.uniform() * vocabularySize));
    return { tokens, spans: [span] };
  });
}

describe.each(fixtureNames)('training the checkpoint %s', async (name) => {
  const folder = sharedFolder();
  const model = await modelIn(fixtureFolder(name));
  const { vocabularySize, architecture } = model;
  const lora = adapterOfTests;
  const models = new BaseModels([model]);
  const base = { baseModel: model.id, folder: null };
  const codec = codecOfTokens(vocabularySize);
  const open = (trainingBytes = 2 ** 32) =>
    openTrainer(runtime, { models, codecOf: () => codec, trainingBytes });
  const trainer = open();
  const byHand = await BatchGraphs.create(runtime, model, lora);
  afterAll(async () => {
    await trainer.close();
    await byHand.release();
  });

  const losses: LossConfig[] = [
    lossOf({ entropy_coefficient: 0.1 }),
    lossOf({ ppo: true, epsilon: 0.4, importance_sampling_level: 'sequence' }),
    { type: 'cross_entropy' },
  ];
  const steps: TrainingBatch[] = losses.map((loss, index) => {
    const datums = datumsOf(index, vocabularySize);
    return { datums, loss, reference: null, learningRate: 1e-2 };
  });
  const checkpoint = (file: string) => ({ baseModel: model.id, folder: join(folder, file) });
  const vectorIn = (file: string) => models.loadVector(checkpoint(file));
  const filesIn = (file: string) =>
    Promise.all(['model', 'optimizer'].map((part) => readFile(join(folder, file, `${part}.safetensors`))));
  const prepared = async (datums: readonly Datum<Constraint>[]) => {
    const sequences = await Promise.all(datums.map((datum) => findDecisions(datum, codec)));
    const batches = toMicroBatches(sequences, {
      architecture,
      bytes: 1e9,
      keepsLayers: true,
      isShared: false,
    });
    return new TrainingPasses(batches, [byHand]);
  };

  it('takes the steps of the passes and Adam', async () => {
    await trainer.begin(base);
    const reported: Record<string, number>[] = [];
    for (const step of steps) reported.push((await trainer.step(step)).metrics);
    await trainer.save(join(folder, 'whole'));
    const vector = new TrainedVector(await models.loadVector(base), null);
    for (const [index, { datums, loss, learningRate }] of steps.entries()) {
      const batchLoss = new BatchLoss(loss, null);
      vector.clearGradient();
      await (await prepared(datums)).addGradient(vector.values, batchLoss, vector, { signal });
      const length = vector.gradientNorm();
      expect(reported[index]).toMatchObject({ ...batchLoss.metrics(), grad_norm: length });
      vector.update({ learningRate, scale: 1 / Math.max(1, length) });
    }
    expect(await vectorIn('whole')).toEqual(vector.values.slice());
    expect(vector.values.slice()).not.toEqual(await models.loadVector(base));
  });

  it('goes on from a checkpoint, in memory or in its folder, with the same bits', async () => {
    const [first, ...rest] = steps as [TrainingBatch, ...TrainingBatch[]];
    await trainer.begin(base);
    await trainer.step(first);
    await trainer.save(join(folder, 'first'));
    const other = open();
    for (const [file, own] of [
      ['from-memory', trainer],
      ['from-folder', other],
    ] as const) {
      await own.begin(checkpoint('first'));
      for (const step of rest) await own.step(step);
      await own.save(join(folder, file));
      expect(await filesIn(file)).toEqual(await filesIn('whole'));
    }
    await other.close();
  });

  it('has the log-probabilities of the sampler within 1e-4, and a KL penalty against base and checkpoint', async () => {
    const vector = await vectorIn('whole');
    const datums = datumsOf(9, vocabularySize).slice(0, 2);
    const decoder = await Decoder.create(runtime, model, { lora, vector });
    decoder.cache.reserve(1, 32, 0);
    for (const { tokens, spans } of datums)
      for (const span of spans) {
        decoder.cache.clear();
        decoder.cache.reserve(1, 32, 0);
        const end = tokens.length;
        const rows = await decoder.run(0, [{ tokens, start: 0, end }], { everyToken: true });
        span.logprobs = Array.from({ length: span.length }, (_, index) => {
          const at = (span.start + index - 1) * vocabularySize;
          const logits = Array.from(rows.logits.subarray(at, at + vocabularySize));
          const scaled = logits.map((logit) => logit / span.sampling.temperature);
          const total = Math.log(scaled.reduce((sum, value) => sum + Math.exp(value), 0));
          return (scaled[tokens[span.start + index] as number] as number) - total;
        });
      }
    await decoder.close();
    const loss = lossOf({ kl_penalty_coef: 0.2 });
    const passes = await prepared(datums);
    const logprobs = (adapter: Float32Array | null) => passes.logprobs(adapter, signal);
    const [current, ofBase, ofFirst] = [
      await logprobs(vector),
      await logprobs(null),
      await logprobs(await vectorIn('first')),
    ];
    const sampled = passes.decisions.map(({ logprob }) => logprob);
    for (const [reference, expected] of [
      [base, ofBase],
      [checkpoint('first'), ofFirst],
    ] as const) {
      await trainer.begin(checkpoint('whole'));
      const { metrics } = await trainer.step({ datums, loss, reference, learningRate: 1e-2 });
      trainer.abandon();
      expect(metrics.logprob_difference_max).toBeLessThan(1e-4);
      const terms = expected.map((logprob, index) => ({
        sampled: sampled[index] as number,
        reference: logprob,
        current: current[index] as number,
      }));
      const penalty = 'klPenalty' in loss && loss.klPenalty;
      if (!penalty) throw new Error('the loss has no penalty');
      const { mean, shifts } = klPenaltyShifts(terms, penalty);
      expect(metrics.kl_policy_ref).toBeCloseTo(mean, 6);
      expect(Math.abs(metrics.kl_policy_ref as number)).toBeGreaterThan(1e-6);
      const batchLoss = new BatchLoss(loss, { mean, shifts });
      const sum = new TrainedVector(vector, null);
      await passes.addGradient(vector, batchLoss, sum, { signal });
      expect(metrics.loss).toBeCloseTo(batchLoss.metrics().loss as number, 6);
    }
  });

  it('refuses what does not fit before it trains anything, with the sum', async () => {
    const [step] = steps as [TrainingBatch];
    const small = open(1e5);
    await small.begin(base);
    await expect(small.step(step)).rejects.toMatchObject({
      code: 'too_long',
      message: expect.stringMatching(/a sequence of \d+ tokens needs .* GB beside the weights/),
    });
    await small.save(join(folder, 'refused'));
    await small.close();
    expect(await vectorIn('refused')).toEqual(await models.loadVector(base));
    const { contextLength } = architecture;
    const [{ spans }] = step.datums as [Datum<Constraint>];
    const tokens = Array.from({ length: contextLength + 2 }, () => 1);
    const start = contextLength + 1;
    const late = [{ ...(spans[0] as (typeof spans)[number]), start, length: 1, logprobs: [-1] }];
    await trainer.begin(base);
    const long = { ...step, datums: [{ tokens, spans: late }] };
    await expect(trainer.step(long)).rejects.toThrow(/exceeds the context/);
    const unknown = { tokens: [vocabularySize, 1, 2], spans: [{ ...late[0], start: 1, length: 1 }] };
    await expect(trainer.step({ ...step, datums: [unknown as Datum<Constraint>] })).rejects.toMatchObject({
      code: 'bad_datum',
    });
    trainer.abandon();
  });

  /** A runtime that counts the runs of all graphs. */
  const watch = () => {
    const seen = { runs: 0, onRun: () => {} };
    const watched: Runtime = {
      ...runtime,
      session: async (graph, weights) => {
        const session = await runtime.session(graph, weights);
        const run: typeof session.run = (feeds) => {
          seen.runs++;
          seen.onRun();
          return session.run(feeds);
        };
        return { run, release: () => session.release() };
      },
    };
    return { watched, seen };
  };

  it('is cancelled between layers, and the next job begins clean', async () => {
    const [step] = steps as [TrainingBatch];
    const { watched, seen } = watch();
    const own = openTrainer(watched, { models, codecOf: () => codec });
    await own.begin(base);
    await own.step(step);
    const all = seen.runs;
    // The first layer forward, and the first one backward, of two.
    for (const last of [1, all - 1]) {
      seen.runs = 0;
      seen.onRun = () => {
        if (seen.runs === last) own.cancel();
      };
      await own.begin(base);
      await expect(own.step(step)).rejects.toMatchObject({ code: 'training_cancelled' });
      expect(seen.runs).toBe(last);
      await expect(own.step(step)).rejects.toMatchObject({ code: 'training_cancelled' });
    }
    seen.onRun = () => {};
    await own.begin(base);
    await own.step(step);
    await own.save(join(folder, 'again'));
    await own.close();
    expect(await filesIn('again')).toEqual(await filesIn('first'));
  });

  it('goes on with a step that another process has begun, with the same bits, and only with the same step', async () => {
    const [step] = steps as [TrainingBatch];
    const scratch = join(folder, 'scratch');
    // The sequences run in several micro-batches.
    const bytes = trainingBytes(architecture, { sequences: 1, time: 24 });
    const { watched, seen } = watch();
    const take = async (batch: TrainingBatch, last = Number.POSITIVE_INFINITY) => {
      const options = { models, codecOf: () => codec, trainingBytes: bytes, keepEveryMs: 0 };
      const own = openTrainer(watched, options);
      try {
        await own.begin(base);
        seen.runs = 0;
        seen.onRun = () => {
          if (seen.runs === last) own.cancel();
        };
        const { metrics, tokens } = await own.step(batch, scratch);
        await own.save(join(folder, 'resumed'));
        const { tokens_per_second, ...figures } = metrics;
        return { runs: seen.runs, figures, tokens, files: await filesIn('resumed') };
      } finally {
        await own.close();
        await rm(join(folder, 'resumed'), { recursive: true, force: true });
      }
    };
    const whole = await take(step);
    await rm(scratch);
    await expect(take(step, Math.floor(whole.runs * 0.8))).rejects.toMatchObject({
      code: 'training_cancelled',
    });
    const kept = await readFile(scratch);
    const resumed = await take(step);
    expect(resumed).toEqual({ ...whole, runs: expect.any(Number) });
    expect(resumed.runs).toBeLessThan(whole.runs * 0.8);
    for (const [other, content] of [
      [{ ...step, loss: lossOf({ entropy_coefficient: 0.2 }) }, kept],
      [{ ...step, datums: datumsOf(5, vocabularySize) }, kept],
      [step, kept.subarray(0, -1)],
      [step, Buffer.alloc(3)],
    ] as const) {
      await writeFile(scratch, content);
      expect((await take(other)).runs).toBe(whole.runs);
    }
    await rm(scratch);
    await mkdir(scratch);
    expect(await take(step)).toEqual(whole);
    expect(existsSync(`${scratch}.partial`)).toBe(false);
  });
});

describe('a trainer of several base models', () => {
  const folder = sharedFolder();

  it('trains them in turn', async () => {
    const bench = await Bench.open();
    const asked = bench.request('hello', 1);
    const datums = await bench.sample([asked], () => 1);
    await bench.close();
    const [one, two] = [randomModel('one', 1), randomModel('two', 2)];
    const models = new BaseModels([one, two]);
    const tokens = codecOfTokens(one.vocabularySize);
    const trainer = openTrainer(runtime, {
      models,
      codecOf: (id) => (id === tinyBase.baseModel ? text : tokens),
    });
    const own = batchOf(datumsOf(3, one.vocabularySize));
    const saved = new Map<string, Float32Array>();
    for (const [index, id] of ['one', tinyBase.baseModel, 'two', 'one'].entries()) {
      await trainer.begin({ baseModel: id, folder: null });
      await trainer.step(id === tinyBase.baseModel ? batchOf(datums) : own);
      const to = { baseModel: id, folder: join(folder, `${id}-${index}`) };
      await trainer.save(to.folder);
      const vector = await models.loadVector(to);
      if (saved.has(id)) expect(vector).toEqual(saved.get(id));
      saved.set(id, vector);
    }
    expect(saved.get('one')).not.toEqual(saved.get('two'));
    await trainer.close();
  });

  it('keeps the last checkpoint in memory until another begins, or it is dropped', async () => {
    const models = new BaseModels([]);
    const load = vi.spyOn(models, 'loadVector');
    const trainer = openTrainer(runtime, { models, codecOf: () => text });
    const saved = { ...tinyBase, folder: join(folder, 'kept') };
    const loads = async () => {
      load.mockClear();
      await trainer.begin(saved);
      await rm(saved.folder, { recursive: true });
      await trainer.save(saved.folder);
      return load.mock.calls.length;
    };
    await trainer.begin(tinyBase);
    await trainer.save(saved.folder);
    expect(await loads()).toBe(0);
    // It is gone before the other is loaded: not even a failure keeps it.
    load.mockRejectedValueOnce(new Error('no memory'));
    await expect(trainer.begin(tinyBase)).rejects.toThrow('no memory');
    expect(await loads()).toBe(1);
    expect(await loads()).toBe(0);
    trainer.drop({ ...saved, folder: join(folder, 'another') });
    expect(await loads()).toBe(0);
    trainer.drop(saved);
    expect(await loads()).toBe(1);
    await trainer.close();
  });
});
