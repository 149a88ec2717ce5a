import { beforeAll, describe, expect, it } from 'vitest';
import { BeamSearch } from '../../../../src/engines/embedded/sampler/beam-search.ts';
import type { SequenceOptions } from '../../../../src/engines/embedded/sampler/sequence.ts';
import type { Generation } from '../../../../src/engines/engine.ts';
import type { Constraint } from '../../../../src/language/grammar/constraint.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { codec, createModel, drain, encode, openPool, ordinary, sequenceOf, textOf } from './support.ts';

type Model = (tokens: readonly number[]) => Promise<Float32Array>;
type Wish = Partial<SequenceOptions> & { constraint?: Constraint; width: number; lengthPenalty: number };

interface Found {
  tokens: number[];
  sum: number;
  /** Ended by its end token or a stop token. */
  stopped: boolean;
}

const end = codec.format.endToken;
const prompt = encode('hello there');
const words = textOf({ type: 'regex', pattern: '(a|b|the|of){1,3}(x|yz)?' });
const choices = ['yes', 'no', 'maybe so', 'maybe not', 'never', 'not at all'];

/** What may follow a reply: forced tokens, then each legal token with its log-probability. Null where it has ended. */
async function follow(model: Model, reply: number[], constraint: Constraint | undefined) {
  const forced: number[] = [];
  let legal: Int32Array = codec.unconstrained;
  if (constraint) {
    const state = (await codec.compiler.compile(constraint)).start();
    let at = 0;
    for (;;) {
      for (const token of state.takeForced()) if (at++ >= reply.length) forced.push(token);
      if (state.ended) return { forced, next: null };
      if (at >= reply.length) break;
      state.accept(reply[at++] as number);
    }
    legal = state.legal().ids;
  }
  const logits = await model([...prompt, ...reply, ...forced]);
  const likelihoods = [...legal].map((token) => Math.exp(logits[token] as number));
  const total = likelihoods.reduce((sum, value) => sum + value, 0);
  return {
    forced,
    next: [...legal].map((token, index) => ({
      token,
      logprob: Math.log((likelihoods[index] as number) / total),
    })),
  };
}

const scored = ({ tokens, sum }: Found, exponent: number) =>
  sum / Math.max(1, tokens.at(-1) === end ? tokens.length - 1 : tokens.length) ** exponent;

/** All replies that a constraint admits, best first. */
async function everyReply(model: Model, constraint: Constraint, exponent: number): Promise<Found[]> {
  const found: Found[] = [];
  const visit = async (reply: number[], sum: number): Promise<void> => {
    const { forced, next } = await follow(model, reply, constraint);
    const tokens = [...reply, ...forced];
    if (!next) found.push({ tokens, sum, stopped: true });
    else if (tokens.at(-1) === end) found.push({ tokens, sum, stopped: true });
    else for (const { token, logprob } of next) await visit([...tokens, token], sum + logprob);
  };
  await visit([], 0);
  return found.sort((a, b) => scored(b, exponent) - scored(a, exponent));
}

/** The search as its docstring says it, on whole lists and with every prefix computed from nothing, to the very end. */
async function plainSearch(model: Model, { width, lengthPenalty, ...wish }: Wish): Promise<Found[]> {
  const { maxTokens = 10, stopTokens = [], constraint } = wish;
  const found: Found[] = [];
  let live: Found[] = [{ tokens: [], sum: 0, stopped: false }];
  while (live.length > 0) {
    const candidates: Found[] = [];
    for (const { tokens, sum } of live) {
      const { forced, next } = await follow(model, tokens, constraint);
      for (const { token, logprob } of next ?? []) {
        const reply = [...tokens, ...forced, token];
        const after = token === end || !constraint ? [] : (await follow(model, reply, constraint)).forced;
        const whole = [...reply, ...after];
        const stop = whole.findIndex((one) => one === end || stopTokens.includes(one));
        const cut = whole.slice(0, Math.min(maxTokens, stop < 0 ? whole.length : stop + 1));
        candidates.push({ tokens: cut, sum: sum + logprob, stopped: stop >= 0 && stop < maxTokens });
      }
    }
    candidates.sort((a, b) => b.sum - a.sum);
    const others = candidates.filter(({ stopped }) => !stopped).slice(0, width);
    found.push(...candidates.slice(0, width).filter(({ stopped }) => stopped));
    found.push(...others.filter(({ tokens }) => tokens.length >= maxTokens));
    live = others.filter(({ tokens }) => tokens.length < maxTokens);
  }
  return found.sort((a, b) => scored(b, lengthPenalty) - scored(a, lengthPenalty)).slice(0, width);
}

async function searchOf({ width, lengthPenalty, ...wish }: Wish) {
  const { maxTokens = 10 } = wish;
  const root = await sequenceOf({ prompt, ...wish, maxTokens });
  return new BeamSearch(root, { width, lengthPenalty, maxTokens });
}

async function find(wish: Wish): Promise<Generation[]> {
  const { pool } = await openPool({ largestBatch: 400 });
  const search = await searchOf(wish);
  pool.add(search, ordinary);
  await drain(pool);
  return search.finish();
}

function expectSame(generations: Generation[], found: Found[]): void {
  expect(generations.map(({ tokens }) => tokens)).toEqual(found.map(({ tokens }) => tokens));
  for (const [index, { logprobs }] of generations.entries()) {
    const sum = logprobs.reduce((total, value) => total + value, 0);
    expect(Math.abs(sum - (found[index]?.sum ?? Number.NaN))).toBeLessThan(1e-5);
  }
}

describe('a beam search', () => {
  let model: Model;

  beforeAll(async () => {
    model = await createModel();
  });

  it.each([-1, 0, 0.5, 1, 3])(
    'as wide as there are replies finds all of them in their order (length penalty %d)',
    async (lengthPenalty) => {
      const all = await everyReply(model, words, lengthPenalty);
      expect(all.length).toBeGreaterThan(50);
      const wish = { constraint: words, width: all.length, lengthPenalty };
      expectSame(await find(wish), all);
    },
  );

  it.each([1, 2, 3, 5])('of width %d finds what a plain search without pruning finds', async (width) => {
    for (const lengthPenalty of [-1, 0, 1, 2]) {
      const constrained = { constraint: words, width, lengthPenalty };
      expectSame(await find(constrained), await plainSearch(model, constrained));
      const stopTokens = encode(' e').concat(encode('a'), encode('n'));
      const free = { width, lengthPenalty, maxTokens: 5, stopTokens };
      expectSame(await find(free), await plainSearch(model, free));
    }
  });

  it('takes forced tokens at no cost, as one step', async () => {
    const constraint = textOf({ type: 'choice', choices });
    const wish = { constraint, width: 3, lengthPenalty: 1, maxTokens: 30 };
    const found = await find(wish);
    expectSame(found, await plainSearch(model, wish));
    for (const { tokens, finishReason } of found) {
      expect(choices).toContain(codec.tokenizer.decode(tokens));
      expect(finishReason).toBe('stop');
    }
  });

  it('returns all replies when there are fewer than its width', async () => {
    const constraint = textOf({ type: 'choice', choices: ['yes', 'no'] });
    expect(await find({ constraint, width: 4, lengthPenalty: 1 })).toHaveLength(2);
    const one = textOf({ type: 'choice', choices: ['certainly'] });
    const [only, ...others] = await find({ constraint: one, width: 4, lengthPenalty: 1, maxTokens: 30 });
    expect(codec.tokenizer.decode(only?.tokens ?? [])).toBe('certainly');
    expect(others).toEqual([]);
  });

  it('of width 1 is greedy when length is not rewarded', async () => {
    const { pool } = await openPool();
    for (const constraint of [words, undefined])
      for (const lengthPenalty of [0, -1]) {
        const options = { prompt, maxTokens: 12, topLogprobs: 2, ...(constraint && { constraint }) };
        const greedy = await sequenceOf({ ...options, sampling: { ...plainSampling, temperature: 0 } });
        pool.add(greedy, ordinary);
        await drain(pool);
        const [found] = await find({ ...options, width: 1, lengthPenalty });
        expect(found).toEqual({ ...greedy.finish(), cachedTokens: 0 });
      }
  });

  it('gives the same bits alone, beside other searches and sequences, and when repeated', async () => {
    const wishes: Wish[] = [
      { width: 4, lengthPenalty: 1, maxTokens: 12 },
      { width: 2, lengthPenalty: 0, constraint: words },
      {
        width: 7,
        lengthPenalty: 0.5,
        maxTokens: 9,
        sampling: { ...plainSampling, temperature: 0.7, topK: 9 },
      },
      { width: 3, lengthPenalty: 2, maxTokens: 12, sampling: { ...plainSampling, repetitionPenalty: 1.5 } },
      { width: 3, lengthPenalty: 1, maxTokens: 12, stopStrings: ['e', 'an'] },
    ];
    const logprobsOf = (generations: Generation[]) => generations.map(({ logprobs }) => logprobs);
    const alone = await Promise.all(wishes.map(async (wish) => logprobsOf(await find(wish))));
    const { pool } = await openPool({ largestBatch: 12 });
    for (let round = 0; round < 2; round++) {
      const searches = await Promise.all(wishes.map(searchOf));
      const sequences = await Promise.all(
        wishes.map((_, seed) => sequenceOf({ prompt, seed, maxTokens: 5 * seed })),
      );
      for (const [index, search] of searches.entries()) {
        pool.add(search, ordinary);
        const sequence = sequences[index];
        if (sequence) pool.add(sequence, ordinary);
      }
      await drain(pool);
      expect(searches.map((search) => logprobsOf(search.finish()))).toEqual(alone);
    }
  });

  it('ends at stop strings, but not before the minimum number of tokens', async () => {
    const stopStrings = ['a', 'e', 'i', 'o', 'u', ' '];
    const minTokens = { count: 4, barred: [end] };
    const wish = { width: 4, lengthPenalty: 0, maxTokens: 8, stopStrings };
    const early = await find(wish);
    const late = await find({ ...wish, sampling: { ...plainSampling, minTokens } });
    expect(early.some(({ stop, tokens }) => typeof stop === 'string' && tokens.length < 4)).toBe(true);
    expect(late.every(({ tokens }) => tokens.length >= 4)).toBe(true);
    for (const { stop, tokens, finishReason } of [...early, ...late])
      if (finishReason === 'stop' && stop !== null) expect(codec.tokenizer.decode(tokens)).toContain(stop);
  });

  it('shares its prompt, and caches the prefixes of its replies for later turns', async () => {
    const { pool } = await openPool();
    const long = encode('a prompt that is long enough for whole blocks of tokens and for some more');
    const wish = { width: 3, lengthPenalty: 1, maxTokens: 20, prompt: long };
    const first = await searchOf(wish);
    const second = await searchOf(wish);
    pool.add(first, ordinary);
    pool.add(second, ordinary);
    await drain(pool);
    expect(second.finish()).toEqual(
      first.finish().map((generation) => ({ ...generation, cachedTokens: long.length - 1 })),
    );
    for (const { tokens } of first.finish()) {
      const turn = await sequenceOf({ prompt: [...long, ...tokens, ...encode('more')], maxTokens: 1 });
      pool.add(turn, ordinary);
      await drain(pool);
      expect(turn.cachedTokens).toBe(Math.floor((long.length + tokens.length - 1) / 16) * 16);
    }
  });

  it('fails as a whole when one of its beams does', async () => {
    const { pool } = await openPool();
    const search = await searchOf({ width: 3, lengthPenalty: 1 });
    search.root.next = () => {
      throw new Error('broken');
    };
    pool.add(search, ordinary);
    expect(await drain(pool)).toEqual([search]);
    expect(search.failure).toEqual(new Error('broken'));
  });
});
