import { queryObjects } from 'node:v8';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { BeamSearch } from '../../../../src/engines/embedded/sampler/beam-search.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { Pool } from '../../../../src/engines/embedded/sampler/pool.ts';
import { PromptScores } from '../../../../src/engines/embedded/sampler/prompt-scores.ts';
import { Sampler } from '../../../../src/engines/embedded/sampler/sampler.ts';
import { Sequence } from '../../../../src/engines/embedded/sampler/sequence.ts';
import type { SamplingCall, WorkerAnswer } from '../../../../src/engines/embedded/threads/worker-messages.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { logitRows } from '../logit-rows.ts';
import { codec, encode, runtime, sources, textOf } from './support.ts';

const weights = { baseModel: 'martingale-tiny', folder: null };
const prompt = encode('hello');
const request = {
  weights,
  prompt,
  sampling: plainSampling,
  seed: 1,
  maxTokens: 5,
  stopStrings: [],
  stopTokens: [],
  plan: null,
  topLogprobs: 0,
  priority: 0,
  cacheSalt: null,
};
const generate: SamplingCall = { type: 'generate', request, stream: true };
const search: SamplingCall = { type: 'search', request: { ...request, width: 3, lengthPenalty: 1 } };
const score: SamplingCall = { type: 'score', request: { weights, prompt, top: 2 } };
/** Takes three steps. */
const longScore: SamplingCall = {
  type: 'score',
  request: { weights, prompt: Array.from({ length: 300 }, (_, at) => at), top: 0 },
};

/** A sampler, and how each of its requests has ended. */
class Watched {
  readonly sampler = new Sampler(runtime, { largestBatch: 4, prefixCacheBytes: 2 ** 20 }, sources);
  readonly ends = new Map<number, 'answered' | 'failed'>();

  /** As the worker does: what cannot be added fails. */
  async add(id: number, call: SamplingCall): Promise<void> {
    await this.sampler.add(id, call).catch(() => this.ends.set(id, 'failed'));
  }

  async addAll(calls: SamplingCall[], first = 0): Promise<void> {
    await Promise.all(calls.map((call, index) => this.add(first + index, call)));
  }

  async step(): Promise<void> {
    this.#take(await this.sampler.step());
  }

  async drain(): Promise<void> {
    while (this.sampler.busy) await this.step();
  }

  #take(answers: WorkerAnswer[]): void {
    for (const answer of answers)
      if ('result' in answer) this.ends.set(answer.id, 'answered');
      else if ('failure' in answer) this.ends.set(answer.id, 'failed');
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});

const failOnce = () => vi.spyOn(Decoder.prototype, 'run').mockRejectedValueOnce(new Error('the run failed'));

/** Fails the run for scores, which comes after that for replies. */
const failScores = () => {
  const run = Decoder.prototype.run;
  vi.spyOn(Decoder.prototype, 'run').mockImplementation(function (this: Decoder, slot, chunks, options) {
    if (options?.everyToken) throw new Error('the run failed');
    return run.call(this, slot, chunks, options);
  });
};

describe('a failure in the sampler', () => {
  it('ends only the sequence, search or scores whose own sampling throws', async () => {
    const watched = new Watched();
    await watched.addAll([generate, search, score, generate, search, score]);
    const broken = () => {
      throw new Error('broken');
    };
    vi.spyOn(Sequence.prototype, 'take').mockImplementationOnce(broken);
    vi.spyOn(BeamSearch.prototype, 'finish').mockImplementationOnce(broken);
    vi.spyOn(PromptScores.prototype, 'finish').mockImplementationOnce(broken);
    await watched.drain();
    const failed = [...watched.ends].filter(([, end]) => end === 'failed').map(([id]) => id);
    // The two searches come to their ends in the order of their requests.
    expect(failed.sort()).toEqual([0, 1, 2]);
    expect(watched.ends.size).toBe(6);
  });

  it('of the decoder ends the whole pool, and the next request loads the weights again', async () => {
    const watched = new Watched();
    const create = vi.spyOn(Decoder, 'create');
    const close = vi.spyOn(Pool.prototype, 'close');
    // Four have slots, and the others wait for one.
    await watched.addAll([generate, search, generate, generate, longScore]);
    await watched.step();
    failOnce();
    await watched.drain();
    expect([...watched.ends.values()]).toEqual(Array(5).fill('failed'));
    expect(close).toHaveBeenCalledTimes(1);
    expect(create).toHaveBeenCalledTimes(1);
    await watched.addAll([generate, search, score], 5);
    await watched.drain();
    expect([5, 6, 7].map((id) => watched.ends.get(id))).toEqual(Array(3).fill('answered'));
    expect(create).toHaveBeenCalledTimes(2);
  });

  it('of the run for scores ends the whole pool', async () => {
    const watched = new Watched();
    await watched.addAll([generate, score]);
    failScores();
    await watched.drain();
    vi.restoreAllMocks();
    expect([...watched.ends.values()]).toEqual(['failed', 'failed']);
    await watched.addAll([generate, score], 2);
    await watched.drain();
    expect([2, 3].map((id) => watched.ends.get(id))).toEqual(['answered', 'answered']);
  });

  it('does not affect requests of other weights, or those that arrive while the pool is discarded', async () => {
    const watched = new Watched();
    const other: SamplingCall = {
      type: 'generate',
      request: { ...request, weights: { baseModel: 'martingale-small', folder: null } },
      stream: false,
    };
    await watched.addAll([generate, other]);
    const late: Promise<void>[] = [];
    // They ask for the pool in the very step in which it fails: long before, right before and after it.
    vi.spyOn(Decoder.prototype, 'run').mockImplementationOnce(async () => {
      late.push(watched.add(2, generate));
      await new Promise(setImmediate);
      late.push(watched.add(3, search));
      throw new Error('the run failed');
    });
    await watched.step();
    late.push(watched.add(4, score));
    await Promise.all(late);
    await watched.drain();
    expect(watched.ends.size).toBe(5);
    const end = (id: number) => watched.ends.get(id);
    // The third request had joined the pool that failed.
    expect([0, 1, 2, 4].map(end)).toEqual(['failed', 'answered', 'failed', 'answered']);
  });

  it('of the model, whose logits are NaN, does not affect later requests', async () => {
    const watched = new Watched();
    const numbers = () => logitRows(new Float32Array(300 * 512).fill(Number.NaN), 512);
    const run = vi.spyOn(Decoder.prototype, 'run').mockImplementation(async () => numbers());
    const greedy: SamplingCall = {
      type: 'generate',
      request: { ...request, sampling: { ...plainSampling, temperature: 0 } },
      stream: true,
    };
    const plan = codec.compiler.plan(textOf({ type: 'regex', pattern: '[a-z]{2,8}' }));
    const held: SamplingCall = { type: 'generate', request: { ...request, plan }, stream: true };
    await watched.addAll([generate, greedy, held, search, score]);
    await watched.drain();
    expect([...watched.ends.keys()].sort()).toEqual([0, 1, 2, 3, 4]);
    expect(new Set(watched.ends.values())).toEqual(new Set(['failed']));
    run.mockRestore();
    await watched.addAll([generate, greedy, held, search, score], 5);
    await watched.drain();
    expect([5, 6, 7, 8, 9].map((id) => watched.ends.get(id))).toEqual(Array(5).fill('answered'));
  });

  it('does not affect requests that are cancelled before, in and after the failing step', async () => {
    const watched = new Watched();
    await watched.addAll([generate, generate, search, score]);
    vi.spyOn(Decoder.prototype, 'run').mockImplementationOnce(async () => {
      watched.sampler.cancel(1);
      throw new Error('the run failed');
    });
    watched.sampler.cancel(0);
    await watched.drain();
    watched.sampler.cancel(2);
    expect(watched.sampler.busy).toBe(false);
    await watched.add(4, generate);
    await watched.drain();
    expect(watched.ends.get(4)).toBe('answered');
  });

  it('is reported each time that weights cannot be loaded, until they can', async () => {
    const watched = new Watched();
    const create = vi.spyOn(Decoder, 'create').mockRejectedValueOnce(new Error('no memory'));
    await watched.addAll([generate, search, score]);
    expect([...watched.ends.values()]).toEqual(['failed', 'failed', 'failed']);
    expect(create).toHaveBeenCalledTimes(1);
    const gone = { ...request, weights: { ...weights, folder: '/nowhere' } };
    await watched.addAll([{ type: 'generate', request: gone, stream: false }, generate], 3);
    await watched.drain();
    expect([3, 4].map((id) => watched.ends.get(id))).toEqual(['failed', 'answered']);
  });

  it('is not reported once it is closed, and nothing more is computed', async () => {
    const watched = new Watched();
    await watched.addAll([generate, search, longScore]);
    await watched.step();
    const release = vi.spyOn(Pool.prototype, 'close');
    const [loading, closing] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const create = Decoder.create;
    vi.spyOn(Decoder, 'create').mockImplementation(async (...given) => {
      loading.resolve();
      await closing.promise;
      return await create.apply(Decoder, given);
    });
    const adding = watched.add(3, {
      type: 'generate',
      request: { ...request, weights: { baseModel: 'martingale-small', folder: null } },
      stream: false,
    });
    await loading.promise;
    const run = vi.spyOn(Decoder.prototype, 'run');
    watched.sampler.cancelAll();
    await watched.drain();
    const closed = watched.sampler.close();
    closing.resolve();
    await closed;
    await adding;
    expect(run).not.toHaveBeenCalled();
    expect(release).toHaveBeenCalledTimes(2);
    await watched.add(4, generate);
    expect([...watched.ends]).toEqual([
      [3, 'failed'],
      [4, 'failed'],
    ]);
  });
});

describe('the memory of the sampler', () => {
  it('holds nothing of two hundred requests, however they ended', {
    tags: ['long'],
  }, async () => {
    // Tests of other files in the same process may keep some.
    const alive = () => [Sequence, BeamSearch, PromptScores].map((kind) => Number(queryObjects(kind)));
    const before = alive();
    const watched = new Watched();
    const plan = codec.compiler.plan(textOf({ type: 'regex', pattern: '[a-z]{2,8}' }));
    const kinds = (index: number): SamplingCall[] => [
      { type: 'generate', request: { ...request, seed: index, plan }, stream: index % 2 === 0 },
      { type: 'generate', request: { ...request, cacheSalt: `${index}`, topLogprobs: 3 }, stream: true },
      { type: 'search', request: { ...request, plan, width: (index % 4) + 1, lengthPenalty: 1 } },
      { type: 'score', request: { weights, prompt, top: index % 3 } },
      { type: 'search', request: { ...request, width: 5, lengthPenalty: 1 } },
    ];
    for (let round = 0; round < 40; round++) {
      if (round % 8 === 3) failOnce();
      const adding = watched.addAll(kinds(round), round * 5);
      if (round % 2) watched.sampler.cancel(round * 5 + (round % 3));
      await adding;
      await watched.step();
      watched.sampler.cancel(round * 5 + (round % 4));
      if (round % 5 === 0) watched.sampler.drop(weights);
      await watched.drain();
      vi.restoreAllMocks();
    }
    expect(watched.ends.size).toBeGreaterThan(120);
    await new Promise(setImmediate);
    for (const [index, count] of alive().entries()) expect(count).toBeLessThanOrEqual(before[index] ?? 0);
    expect(watched.sampler.busy).toBe(false);
  });
});
