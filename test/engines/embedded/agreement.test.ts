import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GenerateRequest } from '../../../src/engines/engine.ts';
import { plainSampling, type SamplingParameters } from '../../../src/learning/index.ts';
import { Bench, baseModel, datumOf } from './support.ts';

const vocabularySize = 512;
const tokens = (minLength: number, maxLength: number) =>
  fc.array(fc.nat(vocabularySize - 1), { minLength, maxLength });

/** Any combination of options; each is off half of the time. */
const samplings = fc.record<SamplingParameters>({
  temperature: fc.constantFrom(1, 1, 0.4, 1.3),
  topP: fc.constantFrom(1, 1, 0.9, 0.6),
  topK: fc.constantFrom(0, 0, 5, 40),
  minP: fc.constantFrom(0, 0, 0.02, 0.2),
  repetitionPenalty: fc.constantFrom(1, 1, 1.2, 0.8),
  frequencyPenalty: fc.constantFrom(0, 0, 0.5, -0.5),
  presencePenalty: fc.constantFrom(0, 0, 1, -1),
  logitBias: fc.oneof(
    fc.constant([]),
    fc.array(fc.tuple(fc.nat(vocabularySize - 1), fc.double({ min: -5, max: 5, noNaN: true })), {
      maxLength: 30,
    }),
  ),
  allowedTokens: fc.oneof(fc.constant(null), tokens(30, 300)),
  bannedTexts: fc.oneof(fc.constant([]), fc.constant(['e', 'or', ' a', '1']), fc.constant(['code', '4'])),
  minTokens: fc.oneof(fc.constant(null), fc.record({ count: fc.nat(20), barred: tokens(0, 40) })),
  ignoreEnd: fc.boolean(),
  processors: fc.oneof(
    fc.constant([]),
    fc.constant([
      { name: 'test.Stripes', args: [5], kwargs: { raise: 1.5 }, extra: {} },
      { name: 'test.Stripes', args: [3], kwargs: {}, extra: { raise: -0.7 } },
    ]),
  ),
});

describe('the trainer', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open({
      logitsProcessors: {
        'test.Stripes': new URL('./extensions/modules/stripes.ts', import.meta.url),
      },
    });
    await bench.warmUp();
  });

  afterAll(() => bench.close());

  /** Trains on what is asked for; the largest difference between its log-probabilities and those of the replies. */
  async function train(name: string, asked: readonly GenerateRequest[]) {
    const datums = await bench.sample(asked, (index) => (index % 2 ? 1 : -1));
    const { metrics } = await bench.train(bench.weights, name, datums, 1e-7);
    return { decisions: metrics.num_decisions, difference: metrics.logprob_difference_max };
  }

  it('computes the log-probabilities of the sampler (1e-4) under masks, temperature and cut-offs', async () => {
    const chosen = [{}, { temperature: 0.6 }, { temperature: 1.3, topP: 0.9, topK: 7, minP: 0.02 }];
    const { decisions, difference } = await train(
      'cut-offs',
      chosen.flatMap((options, index) => {
        const sampling = { ...plainSampling, ...options };
        return [
          bench.request('please refund order 1234', index, { sampling }),
          bench.request('tell me', index, { sampling, constraint: null, maxTokens: 30 }),
        ];
      }),
    );
    expect(decisions).toBeGreaterThan(60);
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(1e-4);
  });

  it('computes them under any combination of options', async () => {
    const asked = fc.sample(samplings, { seed: 20, numRuns: 80 }).map((sampling, index) => {
      const constraint = index % 2 ? bench.constraint() : null;
      return bench.request('please refund order 1234', index, { sampling, constraint, maxTokens: 40 });
    });
    const { decisions, difference } = await train('any', asked);
    expect(decisions).toBeGreaterThan(1000);
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(1e-4);
  });

  it('treats everything before a reply as its prompt, also earlier replies', async () => {
    const sampling = { ...plainSampling, repetitionPenalty: 2, frequencyPenalty: 0.7, presencePenalty: 0.4 };
    const first = bench.request('tell me', 1, { sampling, constraint: null, maxTokens: 20 });
    const one = await bench.engine.generate(first);
    const prompt = [...first.prompt, ...one.tokens, ...bench.prompt('and then?')];
    const second = { ...first, prompt };
    const two = await bench.engine.generate(second);
    const spans = [...datumOf(first, one, 1).spans, ...datumOf(second, two, 1).spans];
    const differenceOf = async (name: string, trained: typeof spans) => {
      const datum = { tokens: [...prompt, ...two.tokens], spans: trained };
      return (await bench.train(bench.weights, name, [datum], 1e-7)).metrics.logprob_difference_max;
    };
    expect(await differenceOf('turns', spans)).toBeLessThan(1e-4);
    const unpenalised = spans.map((span) => ({ ...span, sampling: { ...sampling, repetitionPenalty: 1 } }));
    expect(await differenceOf('unpenalised', unpenalised)).toBeGreaterThan(1e-2);
  });

  it('refuses a token that the sampling parameters rule out', async () => {
    const letter = bench.engine.tokenizer(baseModel).encode('a')[0] as number;
    const one = bench.request('tell me', 1, { constraint: null, maxTokens: 5 });
    const [datum] = await bench.sample([one], () => 1);
    const sampling = { ...plainSampling, allowedTokens: [letter] };
    const spans = datum?.spans.map((span) => ({ ...span, sampling })) ?? [];
    await expect(
      bench.train(bench.weights, 'outside', [{ tokens: datum?.tokens ?? [], spans }]),
    ).rejects.toThrow(
      /Token 0 of the reply.*not allowed by its sampling parameters\. Send choices back unchanged/,
    );
  });
});
