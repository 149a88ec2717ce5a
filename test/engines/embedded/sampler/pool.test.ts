import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BeamSearch } from '../../../../src/engines/embedded/sampler/beam-search.ts';
import { PromptScores } from '../../../../src/engines/embedded/sampler/prompt-scores.ts';
import type { Sequence } from '../../../../src/engines/embedded/sampler/sequence.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { architecture, drain, encode, openPool, ordinary, sequenceOf } from './support.ts';

const seed = 20261121;
const shared = encode(
  'a prompt that is long enough for whole blocks of tokens, and for a few more than that',
);

type Runs = Awaited<ReturnType<typeof openPool>>['run'];

/** The tokens of each run's chunks. */
const lengthsIn = (run: Runs) =>
  run.mock.calls.map(([, chunks]) => chunks.map(({ start, end }) => end - start));

/** How many tokens of a sequence were computed. */
const computedIn = (run: Runs, { tokens }: Sequence) =>
  run.mock.calls
    .flatMap(([, chunks]) => chunks)
    .reduce((sum, chunk) => sum + (chunk.tokens === tokens ? chunk.end - chunk.start : 0), 0);

describe('a pool', () => {
  it('starts waiting requests by priority, then by age', async () => {
    const { pool } = await openPool({ largestBatch: 1 });
    const priorities = [3, 0, -2, 0, 7, -2];
    const sequences = await Promise.all(
      priorities.map((_, index) => sequenceOf({ seed: index, maxTokens: 3 })),
    );
    for (const [index, sequence] of sequences.entries())
      pool.add(sequence, { priority: priorities[index] as number, cacheSalt: null });
    const ended = await drain(pool);
    const order = sequences.map((sequence) => ended.indexOf(sequence));
    expect(order).toEqual([4, 2, 0, 3, 5, 1]);
  });

  it('shares computed prefixes only within a salt, with running sequences and with ended ones', async () => {
    const { pool } = await openPool();
    const ask = async (...salts: (string | null)[]) => {
      const sequences = await Promise.all(salts.map(() => sequenceOf({ prompt: shared, maxTokens: 2 })));
      for (const [index, sequence] of sequences.entries())
        pool.add(sequence, { priority: 0, cacheSalt: salts[index] ?? null });
      await drain(pool);
      return sequences.map(({ cachedTokens }) => cachedTokens);
    };
    const live = shared.length - 1;
    const blocks = Math.floor(shared.length / 16) * 16;
    expect(await ask('a', 'a', 'b', 'b')).toEqual([0, live, 0, live]);
    expect(await ask(null, 'null', '', 'a')).toEqual([0, 0, 0, blocks]);
    expect(await ask(null, null, 'b', 'c')).toEqual([blocks, live, blocks, 0]);
  });

  it('samples the same tokens whatever the salts and priorities are', async () => {
    const { pool } = await openPool({ largestBatch: 3, tokensPerRun: 25 });
    const prompts = [shared, shared.slice(0, 40), shared.slice(0, 20)];
    const standing = fc.record({
      prompt: fc.nat(2),
      priority: fc.integer({ min: -2, max: 2 }),
      cacheSalt: fc.constantFrom(null, 'a', 'b'),
    });
    const alone = new Map<string, number[]>();
    const property = fc.asyncProperty(fc.array(standing, { minLength: 1, maxLength: 6 }), async (drawn) => {
      const sequences = await Promise.all(
        drawn.map(({ prompt }, index) => sequenceOf({ prompt: prompts[prompt], seed: index, maxTokens: 5 })),
      );
      for (const [index, sequence] of sequences.entries()) {
        const { priority, cacheSalt } = drawn[index] as (typeof drawn)[number];
        pool.add(sequence, { priority, cacheSalt });
      }
      await drain(pool);
      for (const [index, sequence] of sequences.entries()) {
        const key = `${drawn[index]?.prompt} ${index}`;
        const { logprobs } = sequence.finish();
        if (!alone.has(key)) {
          const fresh = await openPool({ prefixCacheBytes: 0 });
          const one = await sequenceOf({
            prompt: prompts[drawn[index]?.prompt ?? 0],
            seed: index,
            maxTokens: 5,
          });
          fresh.pool.add(one, ordinary);
          await drain(fresh.pool);
          alone.set(key, one.finish().logprobs);
        }
        expect(logprobs).toEqual(alone.get(key));
      }
    });
    await fc.assert(property, { seed, numRuns: 25 });
  });

  it('computes nothing more of a cancelled sequence, between steps, while it waits or within a step', async () => {
    const { pool, run } = await openPool({ largestBatch: 2 });
    const options = { prompt: shared, maxTokens: 40 };
    const [running, other, waiting, late] = await Promise.all([
      sequenceOf(options),
      sequenceOf({ ...options, seed: 2 }),
      sequenceOf({ ...options, seed: 3 }),
      sequenceOf({ ...options, prompt: shared.slice(1), seed: 4 }),
    ]);
    for (const sequence of [running, other, waiting, late]) pool.add(sequence, ordinary);
    await pool.step();
    await pool.step();
    running.cancel();
    pool.cancel(waiting);
    run.mockClear();
    expect(await pool.step()).toEqual(expect.arrayContaining([running, waiting]));
    const computed = (sequence: Sequence) => computedIn(run, sequence);
    expect([running, waiting, other, late].map(computed)).toEqual([0, 0, 1, late.promptLength]);
    // Batches shrink by those that left.
    await pool.step();
    expect(run.mock.calls.at(-1)?.[1]).toHaveLength(2);

    run.mockClear();
    const another = await sequenceOf({ ...options, prompt: shared.slice(2) });
    other.cancel();
    pool.add(another, ordinary);
    const step = pool.step();
    // The step has begun with the sequence that runs; the new one's prompt comes after it.
    another.cancel();
    await step;
    expect(computed(another)).toBe(0);
    late.cancel();
    await drain(pool);
    expect(computed(late)).toBe(1);
  });

  it('computes a shared prompt for the other sequences if the first is cancelled before', async () => {
    const { pool } = await openPool();
    const options = { prompt: shared, maxTokens: 4 };
    const [first, second, alone] = await Promise.all([
      sequenceOf(options),
      sequenceOf(options),
      sequenceOf(options),
    ]);
    pool.add(alone, ordinary);
    await drain(pool);
    const fresh = await openPool();
    fresh.pool.add(first, ordinary);
    fresh.pool.add(second, ordinary);
    const step = fresh.pool.step();
    first.cancel();
    await step;
    await drain(fresh.pool);
    expect(second.finish().logprobs).toEqual(alone.finish().logprobs);
  });

  it('goes on with a long prompt for another sequence when the first one is cancelled within it', async () => {
    const [alone, first, second, other] = await Promise.all([
      sequenceOf({ prompt: shared, maxTokens: 4 }),
      sequenceOf({ prompt: shared, maxTokens: 4 }),
      sequenceOf({ prompt: shared, maxTokens: 4 }),
      sequenceOf({ prompt: shared, maxTokens: 4, seed: 2 }),
    ]);
    const whole = await openPool();
    whole.pool.add(alone, ordinary);
    await drain(whole.pool);
    const { pool, run } = await openPool({ tokensPerRun: 16 });
    for (const sequence of [first, second, other]) pool.add(sequence, ordinary);
    await pool.step();
    await pool.step();
    expect(computedIn(run, first)).toBe(32);
    pool.cancel(first);
    expect(await pool.step()).toContain(first);
    await drain(pool);
    expect(pool.idle).toBe(true);
    expect(second.finish().logprobs).toEqual(alone.finish().logprobs);
    // Two blocks of the first one's prompt were kept.
    expect(second.cachedTokens).toBe(32);
    expect(other.cachedTokens).toBe(shared.length - 1);
  });

  it.each(['flat', 'padded'] as const)(
    'goes on with running replies in each step while a prompt of thousands of tokens is computed, by %s attention',
    async (attention) => {
      const contextLength = 4096;
      const long = Array.from({ length: 2000 }, (_, at) => (at * 7) % 300);
      const options = { sampling: { ...plainSampling, ignoreEnd: true }, maxTokens: 60 };
      const prompts = [shared, long, long, shared.slice(3), shared];
      const open = () => Promise.all(prompts.map((prompt, seed) => sequenceOf({ ...options, prompt, seed })));
      const alone = await open();
      for (const sequence of alone) {
        const { pool } = await openPool({ contextLength, attention });
        pool.add(sequence, ordinary);
        await drain(pool);
      }
      const { pool, run } = await openPool({ contextLength, attention, tokensPerRun: 200 });
      const [running, first, second, ...others] = await open();
      pool.add(running as Sequence, ordinary);
      await pool.step();
      for (const sequence of [first, second, ...others]) pool.add(sequence as Sequence, ordinary);
      const repliesOf = ({ tokens, promptLength }: Sequence) => tokens.length - promptLength;
      for (let step = 1; step <= 10; step++) {
        run.mockClear();
        expect(repliesOf(first as Sequence)).toBe(0);
        await pool.step();
        expect(repliesOf(running as Sequence)).toBe(1 + step);
        expect(Math.max(...lengthsIn(run).flat())).toBeLessThanOrEqual(200);
      }
      // The others come in the step that ends it. What they share with another is not computed again.
      expect([first, second, ...others].map((sequence) => repliesOf(sequence as Sequence))).toEqual([
        1, 1, 1, 1,
      ]);
      expect(computedIn(run, second as Sequence)).toBe(1);
      await drain(pool);
      expect([running, first, second, ...others].map((sequence) => sequence?.finish().logprobs)).toEqual(
        alone.map((sequence) => sequence.finish().logprobs),
      );
    },
  );

  it('computes short prompts together, as many as a run may have', async () => {
    const { pool, run } = await openPool({ tokensPerRun: 100 });
    const sequences = await Promise.all(
      [20, 21, 22, 23, 24].map((start) =>
        sequenceOf({ prompt: Array.from({ length: 30 }, (_, at) => start + at), maxTokens: 5 }),
      ),
    );
    for (const sequence of sequences) pool.add(sequence, ordinary);
    await pool.step();
    expect(lengthsIn(run)).toEqual([[30, 30, 30]]);
    run.mockClear();
    await pool.step();
    expect(lengthsIn(run)).toEqual([
      [1, 1, 1],
      [30, 30],
    ]);
    await drain(pool);
  });

  it('removes only the sequence that failed', async () => {
    const { pool } = await openPool();
    const [failing, other] = await Promise.all([sequenceOf({ seed: 1 }), sequenceOf({ seed: 2 })]);
    pool.add(failing, ordinary);
    pool.add(other, ordinary);
    await pool.step();
    failing.fail(new Error('broken'));
    expect(await drain(pool)).toContain(other);
    expect(pool.idle).toBe(true);
  });

  it('reserves a slot for every beam of a search, and computes nothing of a cancelled one', async () => {
    const { pool, run } = await openPool({ largestBatch: 4 });
    const root = await sequenceOf({ prompt: shared, maxTokens: 30 });
    const search = new BeamSearch(root, { width: 3, lengthPenalty: 1, maxTokens: 30 });
    pool.add(search, ordinary);
    const others = await Promise.all([1, 2, 3].map((seed) => sequenceOf({ seed, maxTokens: 30 })));
    for (const other of others) pool.add(other, ordinary);
    for (let step = 0; step < 5; step++) await pool.step();
    expect(run.mock.calls.every(([, chunks]) => chunks.length <= 4)).toBe(true);
    expect(others.map(({ computed }) => computed > 0)).toEqual([true, false, false]);
    run.mockClear();
    search.cancel();
    expect(await pool.step()).toContain(search);
    expect(run.mock.calls.flatMap(([, chunks]) => chunks)).toHaveLength(3);
    expect(others.every(({ computed }) => computed > 0)).toBe(true);
    for (const other of others) other.cancel();
    await drain(pool);
  });

  it('scores prompts of tenants in turn, with equal shares of tokens', async () => {
    const { pool } = await openPool();
    const scoresOf = (length: number) =>
      new PromptScores({ prompt: shared.slice(0, length), top: 0 }, architecture.vocabularySize);
    const many = [20, 20, 20, 20].map(scoresOf);
    const few = [30, 10].map(scoresOf);
    const urgent = scoresOf(10);
    for (const scores of many) pool.score(scores, { tenant: 'many' });
    for (const scores of few) pool.score(scores, { tenant: 'few' });
    pool.score(urgent, { tenant: 'many', priority: -1 });
    const ended = await drain(pool);
    expect([urgent, ...many, ...few].map((scores) => ended.indexOf(scores))).toEqual([0, 1, 3, 5, 6, 2, 4]);
  });

  it('refuses a search that is wider than its batches', async () => {
    const { pool } = await openPool({ largestBatch: 4 });
    const root = await sequenceOf();
    const search = new BeamSearch(root, { width: 5, lengthPenalty: 1, maxTokens: 30 });
    expect(() => pool.add(search, ordinary)).toThrow(/width 5.*has 4/);
    expect(pool.idle).toBe(true);
  });

  it('scores a long prompt in parts, between which others continue, and caches nothing of it', async () => {
    const { pool, run } = await openPool();
    const prompt = Array.from({ length: 256 }, (_, at) => (at * 7) % 300);
    const scores = new PromptScores({ prompt, top: 0 }, architecture.vocabularySize);
    const cancelled = new PromptScores({ prompt, top: 0 }, architecture.vocabularySize);
    const other = await sequenceOf({ maxTokens: 8 });
    pool.add(other, ordinary);
    pool.score(scores);
    pool.score(cancelled);
    const before: number[] = [];
    while (!scores.ended) {
      await pool.step();
      before.push(run.mock.calls.length);
    }
    expect(before).toEqual([1, 2]);
    cancelled.cancel();
    await drain(pool);
    expect(cancelled.computed).toBe(0);
    expect(scores.finish()).toHaveLength(256);
    const same = await sequenceOf({ prompt: prompt.slice(0, 200), maxTokens: 1 });
    pool.add(same, ordinary);
    await drain(pool);
    expect(same.cachedTokens).toBe(0);
  });
});
