import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MockLanguageModelV4 } from 'ai/test';
import { evaluate, optimize, type ReflectionRequest } from 'martingale';
import { expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { sharedFolder } from '../support/files.ts';
import { startRecording } from '../telemetry/recording-sdk.ts';
import { addCode, codes, knowingModel, scenarios, validation } from './codes.ts';

const folder = sharedFolder();
const options = { environment: codes, scenarios, validation, progress: false } as const;

test('texts improve until every scenario succeeds, and hold on scenarios that were not seen', async () => {
  const { model } = knowingModel();
  const seen: ReflectionRequest[] = [];
  const result = await optimize({
    ...options,
    model,
    texts: ['system'],
    iterations: 40,
    reflect: (request) => {
      seen.push(request);
      return addCode(request);
    },
    runDirectory: join(folder, 'improves'),
  });
  expectTypeOf(result.texts).toEqualTypeOf<{ system: string; hint: string }>();
  expect(result).toMatchObject({ reason: 'early_stop', texts: { hint: 'Think.' } });
  for (const { word, code } of validation) expect(result.texts.system).toContain(`${word}=${code}`);
  expect(result.candidates[0]).toMatchObject({ parent: null, rewards: [0, 0, 0, 0], texts: codes.texts });
  expect(result.best.rewards).toEqual([1, 1, 1, 1]);
  expect(JSON.parse(await readFile(join(folder, 'improves', 'texts.json'), 'utf8'))).toEqual(result.texts);
  expect(result.iterations.every(({ text }) => text === null || text === 'system')).toBe(true);

  const heldOut = [...validation, ...validation].map((scenario) => ({ ...scenario }));
  const scoreOf = async (environment: typeof codes) =>
    (await evaluate({ environment, scenarios: heldOut, model, progress: false })).success?.mean;
  expect(await scoreOf(codes)).toBe(0);
  expect(await scoreOf(codes.withTexts(result.texts))).toBe(1);

  const [first] = seen;
  expect(first).toMatchObject({ name: 'system', text: codes.texts.system, texts: codes.texts });
  expect(first?.examples).toHaveLength(3);
  expect(first?.examples[0]).toMatchObject({
    reward: 0,
    failure: null,
    metrics: { success: 0 },
    notes: [expect.stringMatching(/^the code of \w+ is \d$/)],
    conversation: expect.stringMatching(
      /^system: Answer with the code\.\nThink\.\nuser: \w+\nassistant: unknown$/,
    ),
  });
  expect(first?.prompt).toContain(first?.examples[0]?.notes[0]);
});

test('a call is one tree of spans: optimization, evaluations, groups', async () => {
  const { spans, stop } = startRecording();
  onTestFinished(stop);
  const { model } = knowingModel();
  const runDirectory = join(folder, 'traced');
  await optimize({ ...options, model, iterations: 1, reflect: addCode, runDirectory });
  const parents = (name: string) =>
    new Set(spans.filter((span) => span.name === name).map(({ parent }) => parent));
  expect(parents('optimization')).toEqual(new Set([undefined]));
  expect(parents('evaluation')).toEqual(new Set(['optimization']));
  expect(parents('group')).toEqual(new Set(['evaluation']));
  const [whole, first] = spans;
  expect(whole?.attributes).toEqual({
    'martingale.run.id': 'traced',
    'martingale.environment': 'codes',
    'martingale.model.name': model.name,
  });
  expect(first?.attributes).toMatchObject({ 'martingale.environment': 'codes' });
  expect(spans.every(({ ends }) => ends === 1)).toBe(true);
});

test('without names, all texts take turns, and the tokens of `reflect` count', async () => {
  const { model, asked } = knowingModel();
  const result = await optimize({
    ...options,
    model,
    iterations: 3,
    rolloutsPerScenario: 2,
    reflect: async (request) => ({
      text: String(await addCode(request)),
      promptTokens: 100,
      sampledTokens: 10,
    }),
    prices: { promptTokensPerMillion: 1e6, sampledTokensPerMillion: 2e6 },
    reflectPrices: { promptTokensPerMillion: 1e6, sampledTokensPerMillion: 1e6 },
    runDirectory: join(folder, 'turns'),
  });
  expect(result).toMatchObject({ reason: 'finished', because: null });
  expect(new Set(result.iterations.map(({ text }) => text))).toEqual(new Set([null, 'system', 'hint']));
  const { spent } = result;
  expect(spent).toMatchObject({
    rollouts: asked.calls,
    model: { promptTokens: asked.calls, sampledTokens: asked.calls },
    reflect: { promptTokens: 300, sampledTokens: 30 },
    cost: asked.calls * 3 + 330,
  });
});

test('a model reflects: its new text stands between marks, and its answer is kept', async () => {
  const { model } = knowingModel();
  const prompts: string[] = [];
  const reflect = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      prompts.push(JSON.stringify(prompt));
      return {
        content: [{ type: 'text', text: 'It lacks codes.\n<new_text>\nCodes: apple=5 pear=6\n</new_text>' }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: {
          inputTokens: { total: 40, noCache: 40, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 9, text: 9, reasoning: 0 },
        },
        warnings: [],
      };
    },
  });
  const result = await optimize({
    ...options,
    model,
    texts: ['system'],
    reflect,
    iterations: 1,
    minibatch: 8,
    runDirectory: join(folder, 'model'),
  });
  expect(result.texts.system).toBe('Codes: apple=5 pear=6');
  expect(result.best).toMatchObject({ number: 1, parent: 0, rewards: [1, 1, 0, 0], success: [1, 1, 0, 0] });
  expect(result.spent.reflect).toEqual({ promptTokens: 40, sampledTokens: 9 });
  expect(prompts).toHaveLength(1);
  expect(prompts[0]).toContain('Improve this text');
});

test('the same seed gives the same run', async () => {
  const run = async (name: string, seed: number) => {
    const { iterations } = await optimize({
      ...options,
      model: knowingModel().model,
      reflect: addCode,
      iterations: 6,
      seed,
      runDirectory: join(folder, name),
    });
    return iterations.map(({ spent: _, ...rest }) => rest);
  };
  expect(await run('seed-a', 1)).toEqual(await run('seed-b', 1));
  expect(await run('seed-c', 1)).not.toEqual(await run('seed-d', 2));
});
