import { beforeAll, describe, expect, it } from 'vitest';
import { builtInLanguage } from '../../../../src/engines/embedded/built-in/built-in-language.ts';
import { ConversationCodec } from '../../../../src/engines/embedded/conversation-codec.ts';
import type { LogitsProcessorFactory } from '../../../../src/engines/embedded/index.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { Sequence, type SequenceOptions } from '../../../../src/engines/embedded/sampler/sequence.ts';
import type { Grammar } from '../../../../src/language/grammar/constraint.ts';
import { plainSampling, type SamplingParameters } from '../../../../src/learning/index.ts';
import { logitRows, logprobsOf } from '../logit-rows.ts';

const failing: LogitsProcessorFactory =
  ({ args }) =>
  ({ reply, logits }) => {
    if (reply.length === args[0]) logits[65] = Number.NaN;
  };

describe('a reply being sampled', () => {
  let codec: ConversationCodec;
  let end: number;

  beforeAll(async () => {
    codec = new ConversationCodec(new Map([['test.Failing', failing]]), builtInLanguage());
    end = codec.format.endToken;
  });

  /** A sequence, and what a model that would write certain tokens makes of it. */
  async function start(
    sampling: Partial<SamplingParameters> = {},
    options: Partial<SequenceOptions> = {},
    grammar: Grammar | null = null,
  ) {
    const compiled = grammar && (await codec.compiler.compile({ grammar }));
    const sequence = new Sequence(
      {
        prompt: codec.tokenizer.encode('hello'),
        sampling: { ...plainSampling, ...sampling },
        maxTokens: 40,
        stopStrings: [],
        stopTokens: [],
        topLogprobs: 0,
        ...options,
      },
      { codec, constraint: compiled?.start() ?? null, random: new Random(1) },
    );
    return { sequence, ...writer(sequence) };
  }

  function writer(sequence: Sequence) {
    const sample = (...tokens: number[]) => {
      for (const token of tokens) if (!sequence.ended) sequence.choose(logitRows(logitsFor(token)), 0);
    };
    return {
      sample,
      /** Letter by letter. */
      write: (text: string) =>
        sample(...[...text].map((letter) => codec.tokenizer.encode(letter)[0] as number)),
      reply: () => sequence.tokens.slice(sequence.promptLength),
      text: () => codec.tokenizer.decode(sequence.tokens.slice(sequence.promptLength)),
    };
  }

  const logitsFor = (token: number) => {
    const logits = new Float32Array(codec.tokenizer.vocabularySize);
    logits[token] = 60;
    return logits;
  };
  const letter = (text: string) => codec.tokenizer.encode(text)[0] as number;

  it('ends at stop strings only once it has its minimum length', async () => {
    const minTokens = { count: 4, barred: [end] };
    const { sequence, write, text } = await start({ minTokens }, { stopStrings: ['ab', 'cd'] });
    write('abxabcxcd and more');
    // The first `ab` came before; the second ends with the fifth token.
    expect(text()).toBe('abxab');
    expect(sequence.finish()).toMatchObject({ finishReason: 'stop', stop: 'ab' });
  });

  it('ends at a stop string that began before its minimum length', async () => {
    const minTokens = { count: 3, barred: [end] };
    const { sequence, write, text } = await start({ minTokens }, { stopStrings: ['abc'] });
    write('abcd');
    expect(text()).toBe('abc');
    expect(sequence.finish().stop).toBe('abc');
  });

  it('cannot take the end token or a stop token before its minimum length', async () => {
    const stop = letter('z');
    const minTokens = { count: 3, barred: [end, stop] };
    const options = { stopTokens: [stop] };
    const { sequence, sample, reply } = await start({ minTokens }, options);
    sample(end, stop, end);
    expect(reply()).toHaveLength(3);
    expect(reply().filter((token) => token === end || token === stop)).toEqual([]);
    sample(stop);
    expect(sequence.finish()).toMatchObject({ finishReason: 'stop', stop });
  });

  it('continues after a stop token that its constraint forces before its minimum length', async () => {
    const minTokens = { count: 4, barred: [end, letter('z')] };
    const options = { stopTokens: [letter('z')] };
    const { sequence, write, text } = await start({ minTokens }, options, {
      type: 'regex',
      pattern: '[ab]z[ab]{9}',
    });
    write('abbaba');
    expect(text()).toBe('azbbaba');
    expect(sequence.ended).toBe(false);
  });

  it('treats the end token like any other if the end is ignored and there is no constraint', async () => {
    const { sequence, sample, reply } = await start({ ignoreEnd: true }, { maxTokens: 5 });
    sample(end, letter('a'), end, end, letter('b'));
    expect(reply()).toEqual([end, letter('a'), end, end, letter('b')]);
    expect(sequence.finish()).toMatchObject({ finishReason: 'length', stop: null });
  });

  it('ends at the end token if the end is ignored but requested as a stop token', async () => {
    const { sequence, sample } = await start({ ignoreEnd: true }, { stopTokens: [end] });
    sample(letter('a'), end);
    expect(sequence.finish()).toMatchObject({ finishReason: 'stop', stop: end });
  });

  it('ends under a constraint that can only end, though the end is ignored', async () => {
    const { sequence, sample, write, text } = await start(
      { ignoreEnd: true },
      {},
      {
        type: 'regex',
        pattern: 'a{1,3}',
      },
    );
    write('a');
    sample(end);
    expect(text()).toMatch(/^a{2,3}$/);
    write('aa');
    expect(text()).toBe('aaa');
    expect(sequence.finish()).toMatchObject({ finishReason: 'stop', stop: null });
  });

  it('never writes a banned text, however many tokens it takes', async () => {
    const bannedTexts = ['e', 'th', 'ab', ' s', 'ing'];
    const level = logitRows(new Float32Array(codec.tokenizer.vocabularySize));
    const written = async (sampling: Partial<SamplingParameters>) => {
      const { sequence, text } = await start(sampling, { maxTokens: 3000 });
      while (!sequence.ended) sequence.choose(level, 0);
      return bannedTexts.filter((banned) => text().includes(banned));
    };
    expect(await written({ bannedTexts, ignoreEnd: true })).toEqual([]);
    expect(await written({ ignoreEnd: true })).toEqual(bannedTexts);
  });

  it('returns its next distribution without sampling from it', async () => {
    const { sequence, reply } = await start({ temperature: 0 }, { topLogprobs: 2 });
    const logits = new Float32Array(3 * codec.tokenizer.vocabularySize);
    logits[2 * codec.tokenizer.vocabularySize + 65] = 2;
    const distribution = sequence.next(logitRows(logits, codec.tokenizer.vocabularySize), 2);
    expect(sequence.alternatives(distribution)[0]).toEqual({
      token: 65,
      logprob: Math.max(...logprobsOf(distribution)),
    });
    expect(reply()).toEqual([]);
    sequence.take(65, -0.5, [{ token: 65, logprob: -0.5 }]);
    expect(sequence.takeDelta()).toEqual({
      tokens: [65],
      logprobs: [-0.5],
      topLogprobs: [[{ token: 65, logprob: -0.5 }]],
    });
  });

  it('forks into two independent ones', async () => {
    const grammar: Grammar = { type: 'regex', pattern: 'x(ab|cd|e)[a-z]{5}' };
    const { sequence, write, text } = await start({}, { stopStrings: ['bq'] }, grammar);
    write('a');
    const fork = sequence.fork();
    const other = writer(fork);
    other.write('rst');
    write('q');
    expect([text(), other.text()]).toEqual(['xabq', 'xabrst']);
    expect([sequence.ended, fork.ended]).toEqual([true, false]);
    expect(fork.takeDelta().logprobs).toHaveLength(fork.tokens.length - fork.promptLength);
    other.write('uv');
    expect(fork.finish()).toMatchObject({ finishReason: 'stop', stop: null });
    expect(other.text()).toBe('xabrstuv');
  });

  it('fails alone, with an error that names the processor', async () => {
    const processors = [{ name: 'test.Failing', args: [2], kwargs: {}, extra: {} }];
    const { sequence, write, text } = await start({ processors });
    write('abcd');
    expect(text()).toBe('ab');
    expect(sequence.ended).toBe(true);
    expect(sequence.cancelled).toBe(false);
    expect(sequence.failure).toMatchObject({
      code: 'logits_processor_failed',
      message: expect.stringMatching(/test\.Failing failed: it wrote NaN for token 65/),
    });
    expect(() => sequence.finish()).toThrow('has not ended');
  });
});
