import { link, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Pool } from '../../../../src/engines/embedded/sampler/pool.ts';
import { Pools } from '../../../../src/engines/embedded/sampler/pools.ts';
import { Sampler } from '../../../../src/engines/embedded/sampler/sampler.ts';
import type { SamplingCall, WorkerAnswer } from '../../../../src/engines/embedded/threads/worker-messages.ts';
import type { Weights } from '../../../../src/engines/engine.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { sharedFolder } from '../../../support/files.ts';
import { randomCheckpoint } from '../random-checkpoint.ts';
import { encode, models, ordinary, runtime, sequenceOf, sources, watched } from './support.ts';

const finishedIn = (answers: WorkerAnswer[]) =>
  answers.flatMap((answer) => ('result' in answer ? [answer.id] : []));
const settings = { largestBatch: 8, prefixCacheBytes: 2 ** 20 };
const folder = sharedFolder();
let checkpoints: Weights[];

const count = 30;

/** Checkpoints that share one file. */
beforeAll(async () => {
  const one = await randomCheckpoint(folder, 'martingale-tiny');
  const original = one.folder ?? '';
  checkpoints = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const copy = join(folder, `copy-${index}`);
      await mkdir(copy);
      for (const file of await readdir(original)) await link(join(original, file), join(copy, file));
      return { ...one, folder: copy };
    }),
  );
});

async function runOut(pool: Pool): Promise<void> {
  while (!pool.idle) await pool.step();
}

const call = (weights: Weights, maxTokens: number): SamplingCall => ({
  type: 'generate',
  stream: false,
  request: {
    ...{ weights, prompt: encode('hello'), sampling: { ...plainSampling, ignoreEnd: true }, maxTokens },
    ...{ stopStrings: [], stopTokens: [], plan: null, topLogprobs: 0, priority: 0, cacheSalt: null },
  },
});

describe('pools', () => {
  it('release the weights of models that are no longer sampled', async () => {
    const pools = new Pools(runtime, models, settings);
    for (const weights of checkpoints) {
      const sequence = await sequenceOf({ maxTokens: 2 });
      let opened: Pool | undefined;
      await pools.open(weights, (pool) => {
        opened = pool;
        pool.add(sequence, ordinary);
      });
      if (opened) await runOut(opened);
      expect(sequence.ended).toBe(true);
      expect(pools.count).toBeLessThanOrEqual(4);
    }
    await pools.close();
  });

  it('release weights that were dropped while they were sampled from, once that has ended', async () => {
    const pools = new Pools(runtime, models, settings);
    const [weights] = checkpoints as [Weights];
    const sequence = await sequenceOf({ maxTokens: 3 });
    await pools.open(weights, (pool) => pool.add(sequence, ordinary));
    pools.drop(weights);
    expect(pools.count).toBe(1);
    for (const pool of pools.ready) await runOut(pool);
    expect(sequence.finish().tokens).toHaveLength(3);
    pools.sweep();
    expect(pools.count).toBe(0);
    await pools.close();
  });

  it('release weights that were dropped while they were loaded and then not used', async () => {
    const pools = new Pools(runtime, models, settings);
    const [weights] = checkpoints as [Weights];
    const opening = pools.open(weights, () => {});
    pools.drop(weights);
    await opening;
    expect(pools.count).toBe(0);
    await pools.close();
  });
});

it('keeps packed weights for the next checkpoint, also when packing them failed once', async () => {
  const { runtime: failing, counts } = watched(2);
  const pools = new Pools(failing, models, settings);
  const weights = { baseModel: 'martingale-tiny', folder: null };
  await expect(pools.open(weights, () => {})).rejects.toThrow('no memory');
  for (let time = 0; time < 2; time++) {
    await pools.open(weights, () => {});
    pools.drop(weights);
  }
  const sessions = models.find(weights.baseModel).architecture.layers + 1;
  expect(counts).toEqual({ made: 2 + sessions, live: sessions });
  await pools.close();
  expect(counts.live).toBe(0);
});

describe('the sampler', () => {
  it('samples from weights that it was told to load, also if their folder has gone', async () => {
    const sampler = new Sampler(runtime, settings, sources);
    const own = await randomCheckpoint(join(folder, 'own'), 'martingale-tiny');
    await sampler.load(own);
    await rm(own.folder ?? '', { recursive: true });
    await sampler.add(0, call(own, 3));
    const finished: number[] = [];
    while (sampler.busy) finished.push(...finishedIn(await sampler.step()));
    expect(finished).toEqual([0]);
    await sampler.close();
  });

  it('steps each model in turn, however many requests of another wait', async () => {
    const sampler = new Sampler(runtime, settings, sources);
    const [crowded, single] = checkpoints as [Weights, Weights];
    const [crowd, tokens] = [400, 6];
    await Promise.all(
      Array.from({ length: crowd }, (_, id) => sampler.add(id, call({ ...crowded }, tokens))),
    );
    await sampler.step();
    await sampler.add(crowd, call(single, tokens));
    const finished: number[] = [];
    for (let step = 0; step < tokens; step++) finished.push(...finishedIn(await sampler.step()));
    expect(finished).toContain(crowd);
    expect(finished.length).toBeLessThanOrEqual(2 * settings.largestBatch + 1);
    // The crowd goes on in the order in which it came.
    while (sampler.busy) finished.push(...finishedIn(await sampler.step()));
    const others = finished.filter((id) => id !== crowd);
    expect(others).toHaveLength(crowd);
    for (const [place, id] of others.entries())
      expect(Math.abs(place - id)).toBeLessThan(settings.largestBatch);
    await sampler.close();
  });

  it('removes thousands of waiting requests at once when they are cancelled', async () => {
    const sampler = new Sampler(runtime, settings, sources);
    const [weights] = checkpoints as [Weights];
    await Promise.all(Array.from({ length: 5000 }, (_, id) => sampler.add(id, call(weights, 6))));
    await sampler.step();
    for (let id = 0; id < 4999; id++) sampler.cancel(id);
    const finished: number[] = [];
    let steps = 0;
    while (sampler.busy) {
      finished.push(...finishedIn(await sampler.step()));
      steps++;
    }
    expect(finished).toEqual([4999]);
    expect(steps).toBeLessThanOrEqual(8);
    await sampler.close();
  });
});
