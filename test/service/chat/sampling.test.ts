import fc from 'fast-check';
import { expect, test } from 'vitest';
import { samplingSchema } from '../../../src/contract/index.ts';
import { plainSampling, type SamplingParameters } from '../../../src/learning/index.ts';
import { fromSampling, toSampling } from '../../../src/service/inference/sampling.ts';
import { special } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

test.each<[object, Partial<SamplingParameters>, object]>([
  [{ temperature: 0.5 }, { temperature: 0.5 }, { temperature: 0.5 }],
  [{ top_p: 0.9 }, { topP: 0.9 }, { top_p: 0.9 }],
  [{ top_k: 3 }, { topK: 3 }, { top_k: 3 }],
  [{ top_k: -1 }, { topK: 0 }, { top_k: 0 }],
  [{ top_k: 0 }, { topK: 0 }, { top_k: 0 }],
  [{ min_p: 0.1 }, { minP: 0.1 }, { min_p: 0.1 }],
  [{ frequency_penalty: -0.5 }, { frequencyPenalty: -0.5 }, { frequency_penalty: -0.5 }],
  [{ presence_penalty: 2 }, { presencePenalty: 2 }, { presence_penalty: 2 }],
  [{ repetition_penalty: 1.5 }, { repetitionPenalty: 1.5 }, { repetition_penalty: 1.5 }],
  [
    { logit_bias: { 65: -100, 7: 2 } },
    {
      logitBias: [
        [7, 2],
        [65, -100],
      ],
    },
    { logit_bias: { 7: 2, 65: -100 } },
  ],
  [
    { allowed_token_ids: [65, special.end] },
    { allowedTokens: [65, special.end] },
    { allowed_token_ids: [65, special.end] },
  ],
  [{ bad_words: ['no', ' nay'] }, { bannedTexts: ['no', ' nay'] }, { bad_words: ['no', ' nay'] }],
  [
    { min_tokens: 3, stop_token_ids: [65, special.end, 65] },
    { minTokens: { count: 3, barred: [special.end, 65] } },
    { min_tokens: 3, stop_token_ids: [special.end, 65] },
  ],
  [{ ignore_eos: true }, { ignoreEnd: true }, { ignore_eos: true }],
  [
    { logits_processors: ['test.Doubling'] },
    { processors: [{ name: 'test.Doubling', args: [], kwargs: {}, extra: {} }] },
    { logits_processors: [{ qualname: 'test.Doubling', args: [], kwargs: {} }] },
  ],
  [
    {
      logits_processors: [{ qualname: 'test.Doubling', args: [2], kwargs: { by: 'x' } }],
      vllm_xargs: { twice: [1, 'a'] },
    },
    {
      processors: [{ name: 'test.Doubling', args: [2], kwargs: { by: 'x' }, extra: { twice: [1, 'a'] } }],
    },
    {
      logits_processors: [{ qualname: 'test.Doubling', args: [2], kwargs: { by: 'x' } }],
      engine_xargs: { twice: [1, 'a'] },
    },
  ],
])('%j reaches the engine and is returned in the choice', async (fields, parameters, shown) => {
  const { chat, engine } = await start();
  const { status, body } = await chat(fields);
  expect(status).toBe(200);
  expect(engine.requests[0]?.sampling).toEqual({ ...plainSampling, ...parameters });
  expect(body.choices[0].sampling).toEqual({
    ...{ temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null },
    prompt: expect.stringMatching(/^sha256-[0-9a-f]{32}$/),
    reply: expect.stringMatching(/^sha256-[0-9a-f]{32}$/),
    ...shown,
  });
});

test('the ends and limits of a reply reach the engine', async () => {
  const { chat, engine } = await start({ priorityScheduling: true });
  await chat({
    ...{ n: 2, seed: 41, stop: 'x', stop_token_ids: [7], max_tokens: 9 },
    ...{ logprobs: true, top_logprobs: 4, priority: -3, cache_salt: 'salt' },
  });
  expect(engine.requests.map(({ seed }) => seed)).toEqual([41, 42]);
  expect(engine.requests[0]).toMatchObject({
    ...{ stopStrings: ['x'], stopTokens: [7], maxTokens: 9 },
    ...{ topLogprobs: 4, priority: -3, cacheSalt: '[null,"salt"]' },
  });
  await chat({ max_completion_tokens: 4, max_tokens: 9, stop: ['a', 'b'] });
  expect(engine.requests[2]).toMatchObject({
    ...{ maxTokens: 4, stopStrings: ['a', 'b'] },
    ...{ topLogprobs: 0, priority: 0, cacheSalt: null },
  });
  expect(engine.requests[2]).not.toHaveProperty('seed');
});

test.each([
  [-(2 ** 63), [-9223372036854776000n, -9223372036854775999n]],
  [2 ** 63, [9223372036854776000n, 9223372036854776001n]],
  [Number.MAX_SAFE_INTEGER, [Number.MAX_SAFE_INTEGER, 2n ** 53n]],
  [-1, [-1, 0]],
])('the seed %d gives each choice its own seed', async (seed, seeds) => {
  const { chat, engine } = await start();
  expect((await chat({ seed, n: 2 })).status).toBe(200);
  expect(engine.requests.map((request) => request.seed)).toEqual(seeds);
});

test('seeds beyond 2^53 keep every digit of the request', async () => {
  const { call, engine } = await start();
  for (const seed of ['9007199254740993', '-9223372036854775807', '9.0e18'])
    await call(
      'POST',
      '/v1/chat/completions',
      `{"tools":[],"seed":${seed},"metadata":{"seed":"1"},"messages":[{"role":"user","content":"hi"}]}`,
    );
  expect(engine.requests.map(({ seed }) => seed)).toEqual([
    9007199254740993n,
    -9223372036854775807n,
    9_000_000_000_000_000_000n,
  ]);
});

const names = fc.string({ minLength: 1, maxLength: 5 }).filter((name) => name !== '__proto__');
const argument = fc.oneof(fc.string(), fc.integer(), fc.array(fc.oneof(fc.string(), fc.integer())));
const ids = fc.uniqueArray(fc.nat({ max: 500 }), { minLength: 1, maxLength: 5 });
const json = fc.oneof(fc.string(), fc.integer(), fc.boolean());
const real = (min: number, max: number) =>
  fc.double({ min, max, noNaN: true }).map((value) => (value === 0 ? 0 : value));

const parameters: fc.Arbitrary<SamplingParameters> = fc
  .record({
    temperature: real(0, 2),
    topP: real(0.01, 1),
    topK: fc.nat(),
    minP: real(0, 1),
    repetitionPenalty: real(0.1, 3),
    frequencyPenalty: real(-2, 2),
    presencePenalty: real(-2, 2),
    biases: fc.dictionary(fc.nat({ max: 500 }).map(String), real(-100, 100), { maxKeys: 4 }),
    allowedTokens: fc.option(ids),
    bannedTexts: fc.array(fc.string({ minLength: 1 }), { maxLength: 3 }),
    minTokens: fc.option(fc.record({ count: fc.integer({ min: 1, max: 99 }), barred: ids })),
    ignoreEnd: fc.boolean(),
    calls: fc.array(fc.record({ name: names, args: fc.array(json), kwargs: fc.dictionary(names, json) }), {
      maxLength: 3,
    }),
    extra: fc.dictionary(names, argument),
  })
  .map(({ biases, calls, extra, ...rest }) => ({
    ...rest,
    logitBias: Object.entries(biases).map(([token, bias]): [number, number] => [Number(token), bias]),
    processors: calls.map((call) => ({ ...call, extra })),
  }));

test('the carried fields describe the whole distribution of a choice, also as JSON', () => {
  fc.assert(
    fc.property(parameters, (sampling) => {
      const sent: unknown = JSON.parse(JSON.stringify(toSampling(sampling, 'sha256-0')));
      expect(fromSampling(samplingSchema.parse(sent))).toEqual(sampling);
    }),
    { seed: 7, numRuns: 300 },
  );
  expect(fromSampling(samplingSchema.parse(toSampling(plainSampling, null)))).toEqual(plainSampling);
  expect(fromSampling(null)).toEqual(plainSampling);
});
