import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LogitsProcessorFactory } from '../../../../src/engines/embedded/index.ts';
import type { Distribution } from '../../../../src/engines/embedded/sampling/distribution.ts';
import type { ReplyState } from '../../../../src/engines/embedded/sampling/logit-adjustments.ts';
import { ReplySampling } from '../../../../src/engines/embedded/sampling/reply-sampling.ts';
import { plainSampling, type SamplingParameters } from '../../../../src/learning/index.ts';
import { logitRows, logprobsOf } from '../logit-rows.ts';
import {
  bytes,
  callToken,
  endToken,
  type PlainProcessor,
  referenceLogprobs,
  type Situation,
  text,
} from './reference.ts';

const plainProcessors: Record<string, PlainProcessor> = {
  double: (logit) => 2 * logit,
  'no-last': (logit, token, { reply }) => (reply.at(-1) === token ? Number.NEGATIVE_INFINITY : logit),
  'of-the-prompt': (logit, token, { prompt }) => (prompt.includes(token) ? logit : Number.NEGATIVE_INFINITY),
};

/** The same as an operator writes them. */
const factories = new Map<string, LogitsProcessorFactory>(
  Object.entries(plainProcessors).map(([name, change]) => [
    name,
    () =>
      ({ prompt, reply, logits }) =>
        logits.forEach((logit, token) => {
          logits[token] = change(logit, token, { prompt: [...prompt], reply: [...reply], allowed: null });
        }),
  ]),
);
const call = (name: string) => ({ name, args: [], kwargs: {}, extra: {} });

function stateOf({ prompt, reply, allowed }: Situation, keep?: number): ReplyState {
  const tokens = [...prompt, ...reply];
  return {
    tokens,
    start: prompt.length,
    end: tokens.length,
    allowed: allowed && Int32Array.from(allowed),
    ...(keep !== undefined && { keep }),
  };
}

function at(
  logits: readonly number[],
  sampling: Partial<SamplingParameters>,
  situation: Partial<Situation> = {},
  keep?: number,
): Distribution {
  const state = stateOf({ prompt: [6], reply: [], allowed: null, ...situation }, keep);
  const ready = new ReplySampling({ ...plainSampling, ...sampling }, text, factories);
  return ready.distribution(logitRows(Float32Array.from(logits)), 0, state);
}

const level = bytes.map(() => 0);
const supportOf = (...question: Parameters<typeof at>) => [...at(...question).support];
const written = (tokens: readonly number[]) => tokens.map((token) => bytes[token]);

describe('the distribution of a reply', () => {
  it('has all text tokens and the end token with everything off', () => {
    expect(supportOf(level, {})).toEqual([...text.unconstrained]);
    expect(supportOf(level, {}, { allowed: [2, callToken] })).toEqual([2, callToken]);
  });

  it('has only allowed tokens, unless the constraint has none of them', () => {
    expect(supportOf(level, { allowedTokens: [1, 4, callToken] })).toEqual([1, 4]);
    expect(supportOf(level, { allowedTokens: [1, 4] }, { allowed: [2, 3] })).toEqual([2, 3]);
  });

  it('excludes barred tokens until the reply has its minimum length', () => {
    const minTokens = { count: 2, barred: [endToken, 0] };
    expect(supportOf(level, { minTokens }, { reply: [1] })).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(supportOf(level, { minTokens }, { reply: [1, 1] })).toEqual([...text.unconstrained]);
    expect(supportOf(level, { minTokens }, { allowed: [endToken] })).toEqual([endToken]);
  });

  it('excludes the end if it is ignored and the constraint can continue', () => {
    expect(supportOf(level, { ignoreEnd: true }, { allowed: [2, endToken] })).toEqual([2]);
    expect(supportOf(level, { ignoreEnd: true }, { allowed: [endToken] })).toEqual([endToken]);
    expect(supportOf(level, { ignoreEnd: true })).toContain(endToken);
  });

  it('excludes tokens that would complete a banned text, however it is cut', () => {
    const bannedTexts = ['abc'];
    expect(written(supportOf(level, { bannedTexts }))).not.toContain('abc');
    const afterA = written(supportOf(level, { bannedTexts }, { reply: [6, 0] }));
    expect(afterA).toContain('b');
    expect(afterA).not.toContain('bc');
    const afterAB = written(supportOf(level, { bannedTexts }, { reply: [0, 1] }));
    expect(afterAB.filter((token) => token?.startsWith('c'))).toEqual([]);
    expect(supportOf(level, { bannedTexts }, { reply: [0, 1], allowed: [2, 5] })).toEqual([2, 5]);
    // What the prompt ends in is not the reply's.
    expect(written(supportOf(level, { bannedTexts }, { prompt: [0, 1] }))).toContain('c');
  });

  it('applies the bias, then the repetition penalty, then the penalties of the reply', () => {
    const logits = [1, -1, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    const distribution = at(
      logits,
      {
        logitBias: [[2, 0.5]],
        repetitionPenalty: 2,
        frequencyPenalty: 0.25,
        presencePenalty: 0.125,
        temperature: 0.5,
      },
      { prompt: [0, 1], reply: [2, 2], allowed: [0, 1, 2, 3] },
    );
    const logprobs = logprobsOf(distribution);
    const expected = [1 / 2, -1 * 2, 2.5 / 2 - 0.25 * 2 - 0.125, 0].map((value) => value / 0.5);
    const shift = (logprobs[3] as number) - (expected[3] as number);
    expected.forEach((value, index) => {
      expect(logprobs[index]).toBeCloseTo(value + shift, 12);
    });
  });

  it('runs processors over the legal logits, in their order', () => {
    const seen: number[][] = [];
    const look: LogitsProcessorFactory =
      ({ args, extra, vocabularySize }) =>
      ({ logits }) => {
        seen.push([...logits], [Number(args[0]), Number(extra.by), vocabularySize]);
        logits[2] = (logits[2] as number) + Number(args[0]);
      };
    const calls = [1, 10].map((by) => ({ name: 'look', args: [by], kwargs: {}, extra: { by: 2 * by } }));
    const ready = new ReplySampling({ ...plainSampling, processors: calls }, text, new Map([['look', look]]));
    const state = stateOf({ prompt: [6], reply: [], allowed: [2, 3] });
    const rows = logitRows(Float32Array.from(level, (_, token) => token));
    const logprobs = logprobsOf(ready.distribution(rows, 0, state));
    const banned = Number.NEGATIVE_INFINITY;
    const legal = (of2: number) => level.map((_, token) => (token === 2 ? of2 : token === 3 ? 3 : banned));
    expect(seen).toEqual([legal(2), [1, 2, bytes.length], legal(3), [10, 20, bytes.length]]);
    expect((logprobs[0] as number) - (logprobs[1] as number)).toBeCloseTo(13 - 3, 12);
  });

  it('ignores a processor that bans everything, and a ban of the token to keep', () => {
    const processors = [call('of-the-prompt')];
    expect(supportOf(level, { processors }, { prompt: [0, 4] })).toEqual([0, 4]);
    expect(supportOf(level, { processors }, { prompt: [callToken] })).toEqual([...text.unconstrained]);
    expect(supportOf(level, { processors }, { prompt: [0, 4] }, 7)).toEqual([0, 4, 7]);
    expect(supportOf(level, { processors }, { prompt: [0, 4] }, callToken)).toEqual([0, 4]);
  });

  it('refuses invalid parameters by name', () => {
    expect(() => at(level, { repetitionPenalty: 0 })).toThrow(/`repetitionPenalty` is 0/);
    expect(() => at(level, { logitBias: [[99, 1]] })).toThrow(/`logitBias` names token 99.*0 to 10/);
    expect(() => at(level, { allowedTokens: [-1] })).toThrow(/`allowedTokens` names token -1/);
    expect(() => at(level, { logitBias: [[0, Number.POSITIVE_INFINITY]] })).toThrow(
      /token 0 becomes Infinity/,
    );
  });

  const tokens = (length: number) => fc.array(fc.nat(bytes.length - 1), { maxLength: length });
  const situations = fc.record<Situation>({
    prompt: fc.array(fc.nat(bytes.length - 1), { minLength: 1, maxLength: 5 }),
    reply: tokens(6),
    allowed: fc.option(fc.subarray([...bytes.keys()], { minLength: 1 })),
  });
  const rules = fc.record<SamplingParameters>({
    temperature: fc.constantFrom(0, 0.3, 1, 1.7),
    topP: fc.constantFrom(1, 1, 0.83, 0.31),
    topK: fc.constantFrom(0, 0, 1, 3, 8),
    minP: fc.constantFrom(0, 0, 0.07, 0.4),
    repetitionPenalty: fc.constantFrom(1, 1, 1.3, 0.6),
    frequencyPenalty: fc.constantFrom(0, 0.4, -0.7),
    presencePenalty: fc.constantFrom(0, 0.9, -0.3),
    logitBias: fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: -4, max: 4 })), {
      maxLength: 3,
    }),
    allowedTokens: fc.option(tokens(8)),
    bannedTexts: fc.array(fc.stringMatching(/^[abc ]{1,4}$/), { maxLength: 3 }),
    minTokens: fc.option(fc.record({ count: fc.nat(5), barred: tokens(4) })),
    ignoreEnd: fc.boolean(),
    processors: fc.array(fc.constantFrom(...Object.keys(plainProcessors).map(call)), { maxLength: 2 }),
  });
  const logits = fc.array(fc.double({ min: -6, max: 6, noNaN: true }), {
    minLength: bytes.length,
    maxLength: bytes.length,
  });

  it('is the result of the documented steps in float64', () => {
    fc.assert(
      fc.property(logits, rules, situations, (values, sampling, situation) => {
        const raw = [...Float32Array.from(values)];
        const processors = sampling.processors.map(({ name }) => plainProcessors[name] as PlainProcessor);
        const expected = referenceLogprobs(raw, sampling, situation, processors);
        const distribution = at(raw, sampling, situation);
        const { support, total, offset, positions, likelihoods } = distribution;
        const logprobs = logprobsOf(distribution);
        // The exponentials of a graph have 32 bits.
        const digits = likelihoods instanceof Float32Array ? 6 : 9;
        expect([...support]).toEqual([...expected.keys()].sort((a, b) => a - b));
        support.forEach((token, index) => {
          expect(logprobs[index]).toBeCloseTo(expected.get(token) as number, digits);
          const likelihood = likelihoods[offset + (positions[index] as number)] as number;
          expect(likelihood / total).toBeCloseTo(Math.exp(expected.get(token) as number), digits);
        });
      }),
      { seed: 11, numRuns: 2000 },
    );
  });

  it('has the slopes of finite differences', () => {
    const step = 1 / 256;
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -300, max: 300 }), { minLength: 11, maxLength: 11 }),
        rules.map((sampling) => ({
          ...sampling,
          repetitionPenalty: 1.3,
          topK: 0,
          topP: 1,
          minP: 0,
          processors: [],
          // Keeps the logits, whole 64ths before, two steps away from 0, where the penalty has its bend.
          logitBias: bytes.map((_, token): [number, number] => [token, 2 * step]),
        })),
        situations,
        (values, sampling, situation) => {
          const raw = values.map((value) => value / 64);
          const distribution = at(raw, sampling, situation);
          const { support, slopes } = distribution;
          const probabilities = logprobsOf(distribution).map(Math.exp);
          const temperature = sampling.temperature === 0 ? 1 : sampling.temperature;
          const nudged = (token: number, by: number) =>
            logprobsOf(
              at(
                raw.map((value, id) => (id === token ? value + by : value)),
                sampling,
                situation,
              ),
            );
          support.forEach((token, j) => {
            const up = nudged(token, step);
            const down = nudged(token, -step);
            support.forEach((_, k) => {
              const difference = ((up[k] as number) - (down[k] as number)) / (2 * step);
              const slope = ((k === j ? 1 : 0) - (probabilities[j] as number)) / temperature;
              expect(Math.abs(difference - slope * (slopes?.[j] ?? Number.NaN))).toBeLessThan(1e-3);
            });
          });
        },
      ),
      { seed: 12, numRuns: 100 },
    );
  });

  it('has no slopes if all are 1', () => {
    expect(at(level, {}).slopes).toBeNull();
    expect(at(level, { frequencyPenalty: 1, logitBias: [[0, 1]] }, { reply: [0] }).slopes).toBeNull();
    expect([...(at(level, { repetitionPenalty: 2, topK: 2 }, { reply: [0] }).slopes ?? [])]).toEqual([2, 1]);
  });
});
