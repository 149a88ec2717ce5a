import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ScoredToken } from '../../../../src/engines/engine.ts';
import { randomCheckpoint } from '../random-checkpoint.ts';
import { Bench, baseModel } from '../support.ts';

const vocabularySize = 512;

describe('the scores of a prompt', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open();
    bench.weights = await randomCheckpoint(bench.folder, baseModel);
  });

  afterAll(() => bench.close());

  const score = (prompt: number[], top = 0, signal?: AbortSignal) =>
    bench.engine.scorePrompt({ weights: bench.weights, prompt, top, ...(signal && { signal }) });
  const rest = (scores: (ScoredToken | null)[]) => scores.slice(1).flatMap((one) => (one ? [one] : []));

  it('are the log-probabilities that sampling gives, over the whole vocabulary', async () => {
    const request = bench.request('a longer prompt '.repeat(20), 3, { constraint: null, maxTokens: 150 });
    const { tokens, logprobs } = await bench.engine.generate(request);
    expect(tokens.length).toBeGreaterThan(100);
    const whole = [...request.prompt, ...tokens];
    const scores = await score(whole, vocabularySize);
    expect(scores).toHaveLength(whole.length);
    expect(scores[0]).toBeNull();
    const { special } = bench.engine.tokenizer(baseModel);
    const { endToken } = bench.engine.chatFormat(baseModel);
    const barred = new Set([...special.values()].filter((token) => token !== endToken));
    const replies = rest(scores).slice(request.prompt.length - 1);
    for (const [index, { token, logprob, top }] of replies.entries()) {
      expect(token).toBe(tokens[index]);
      const legal = top.filter((one) => !barred.has(one.token));
      const total = legal.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
      expect(Math.abs(logprob - Math.log(total) - (logprobs[index] as number))).toBeLessThan(1e-4);
    }
  });

  it('rank a token by how many are likelier, and list the likeliest', async () => {
    const prompt = bench.prompt('where is order 17');
    const all = rest(await score(prompt, vocabularySize));
    for (const { token, logprob, rank, top } of all) {
      expect(top).toHaveLength(vocabularySize);
      expect(top[rank - 1]).toEqual({ token, logprob });
      expect(top.every((one, at) => at === 0 || (top[at - 1]?.logprob ?? 0) >= one.logprob)).toBe(true);
      expect(top.reduce((sum, one) => sum + Math.exp(one.logprob), 0)).toBeCloseTo(1, 6);
    }
    const few = rest(await score(prompt, 3));
    expect(few).toEqual(all.map((one) => ({ ...one, top: one.top.slice(0, 3) })));
    expect(rest(await score(prompt))).toEqual(all.map((one) => ({ ...one, top: [] })));
  });

  it('neither use nor change the prefix cache', async () => {
    const request = bench.request('something that nobody has asked so far, at some length', 4);
    const before = await score([...request.prompt]);
    const first = await bench.engine.generate(request);
    expect(first.cachedTokens).toBe(0);
    expect(await score([...request.prompt])).toEqual(before);
    const second = await bench.engine.generate(request);
    expect(second.cachedTokens).toBeGreaterThan(0);
    expect(second.logprobs).toEqual(first.logprobs);
  });

  it('do not depend on what is sampled and scored at the same time', async () => {
    const prompts = Array.from({ length: 5 }, (_, at) =>
      bench.prompt(`${at} is a prompt `.repeat(4 + 6 * at)),
    );
    const alone: (ScoredToken | null)[][] = [];
    for (const prompt of prompts) alone.push(await score(prompt, 2));
    const [beside] = await Promise.all([
      Promise.all(prompts.map((prompt) => score(prompt, 2))),
      bench.generate(Array.from({ length: 20 }, (_, seed) => bench.request('beside', seed))),
    ]);
    expect(beside).toEqual(alone);
  });

  it('exist for one token and for a whole context, but not beyond', async () => {
    expect(await score([65])).toEqual([null]);
    expect(await score(new Array(512).fill(65))).toHaveLength(512);
    await expect(score(new Array(513).fill(65))).rejects.toThrow(/1 to 512 tokens.*513/);
    await expect(score([])).rejects.toThrow(/has 0/);
  });

  it('reject when their signal aborts', async () => {
    const stop = new AbortController();
    const scoring = score(new Array(512).fill(65), 0, stop.signal);
    stop.abort(new Error('enough'));
    await expect(scoring).rejects.toThrow('enough');
    expect(await score([65, 66])).toHaveLength(2);
  });
});
