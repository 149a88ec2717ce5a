import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BeamSearchRequest, Generation } from '../../../../src/engines/engine.ts';
import type { Constraint } from '../../../../src/language/grammar/constraint.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { randomCheckpoint } from '../random-checkpoint.ts';
import { Bench, baseModel } from '../support.ts';

const sumOf = ({ logprobs }: Generation) => logprobs.reduce((sum, logprob) => sum + logprob, 0);

describe('beam search of the embedded engine', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open({ largestBatch: 16 });
    bench.weights = await randomCheckpoint(bench.folder, baseModel);
  });

  afterAll(() => bench.close());

  const wish = (text: string, more: Partial<BeamSearchRequest> = {}): BeamSearchRequest => {
    const { seed: _, ...request } = bench.request(text, 0, { constraint: null, maxTokens: 12 });
    return { ...request, width: 4, lengthPenalty: 1, ...more };
  };
  const scoreOf = (generation: Generation, exponent: number) => {
    const { endToken } = bench.engine.chatFormat(baseModel);
    const length = generation.tokens.filter((token) => token !== endToken).length;
    return sumOf(generation) / length ** exponent;
  };

  it('finds the best of the replies that sampling finds, with the same log-probabilities', async () => {
    const choices = ['a', 'ab', 'be', 'the', 'cat', 'dog'];
    const constraint: Constraint = {
      grammar: { type: 'choice', choices },
    };
    const sampling = { ...plainSampling, temperature: 2, presencePenalty: 0.3 };
    const replies = new Map<string, Generation>();
    const asked = Array.from({ length: 400 }, (_, seed) =>
      bench.request('choose', seed, { constraint, sampling }),
    );
    for (const generation of await bench.generate(asked)) replies.set(generation.tokens.join(), generation);
    expect(replies.size).toBeGreaterThanOrEqual(choices.length);
    for (const lengthPenalty of [0, 1]) {
      const width = replies.size;
      const found = await bench.engine.beamSearch(
        wish('choose', { constraint, sampling, width, lengthPenalty }),
      );
      const expected = [...replies.values()].sort(
        (a, b) => scoreOf(b, lengthPenalty) - scoreOf(a, lengthPenalty),
      );
      expect(found.map(({ tokens }) => tokens)).toEqual(expected.map(({ tokens }) => tokens));
      expect(found.map(({ logprobs }) => logprobs)).toEqual(expected.map(({ logprobs }) => logprobs));
    }
  });

  it('finds as many different replies as its width, best first, and the same ones again', async () => {
    const widths = [1, 4, 16];
    const found = await Promise.all(
      widths.map((width) => bench.engine.beamSearch(wish('hello', { width, lengthPenalty: 0 }))),
    );
    for (const [index, generations] of found.entries()) {
      expect(generations).toHaveLength(widths[index] as number);
      const sums = generations.map(sumOf);
      expect(sums).toEqual([...sums].sort((a, b) => b - a));
      expect(new Set(generations.map(({ tokens }) => tokens.join())).size).toBe(generations.length);
    }
    expect(await bench.engine.beamSearch(wish('hello', { lengthPenalty: 0 }))).toEqual(
      found[1]?.map((generation) => ({ ...generation, cachedTokens: expect.any(Number) })),
    );
  });

  it('writes only what its constraint allows', async () => {
    const constraint = bench.constraint();
    for (const { tokens, finishReason } of await bench.engine.beamSearch(
      wish('refund order 4821', { constraint, width: 12, maxTokens: 60 }),
    )) {
      expect(finishReason).toBe('stop');
      const text = bench.engine.tokenizer(baseModel).decode(tokens);
      expect(text).toMatch(
        /^((done|sorry), code \d\d|<tool_call>(refund|track)\{"order":"\d{4}"\}<\/tool_call>)$/,
      );
    }
  });

  it('ends when its signal aborts, and frees its slots', async () => {
    const stop = new AbortController();
    const searching = bench.engine.beamSearch(
      wish('hello', { width: 16, maxTokens: 400, signal: stop.signal }),
    );
    const other = bench.engine.generate(bench.request('hello', 1));
    stop.abort(new Error('enough'));
    await expect(searching).rejects.toThrow('enough');
    await expect(other).resolves.toBeDefined();
    await expect(bench.engine.beamSearch(wish('hello', { signal: stop.signal }))).rejects.toThrow('enough');
  });

  it('refuses invalid options by name', async () => {
    const refused = (more: Partial<BeamSearchRequest>) => bench.engine.beamSearch(wish('hello', more));
    await expect(refused({ width: 0 })).rejects.toThrow(/`width` is 0/);
    await expect(refused({ width: 17 })).rejects.toThrow(/width 17.*has 16/);
    await expect(refused({ lengthPenalty: Number.NaN })).rejects.toThrow(/lengthPenalty.*NaN/);
    await expect(refused({ prompt: [] })).rejects.toThrow(/1 to 511 tokens/);
  });
});
