import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import {
  type ComparedEvaluation,
  compare,
  defineEnvironment,
  describeComparison,
  type EvaluateOptions,
  evaluate,
  externalModel,
} from 'martingale';
import { evaluationJsonLines, readEvaluation } from 'martingale/records';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { holm } from '../../src/evaluation/compare.ts';
import environment, { knows, scenarios } from '../cli/environments/sums.ts';
import { temporaryFolder } from '../support/files.ts';

interface Reference {
  cases: {
    rows: number[][];
    wilson: [number, number][];
    difference: number[];
    standardError: number[];
    pValue: number[];
    holm: number[];
  }[];
  times: number[];
  median: number;
  p90: number;
}

const reference: Reference = JSON.parse(
  await readFile(new URL('fixtures/comparisons.json', import.meta.url), 'utf8'),
);

const prices = { promptTokensPerMillion: 2, sampledTokensPerMillion: 8 };

type Options = Partial<EvaluateOptions<z.ZodType<(typeof scenarios)[number]>, string>>;

const scoresOf = (count: number, options: Options = {}) =>
  evaluate({ environment, scenarios, model: knows(`knows ${count}`, count), ...options });

/** Answers as a provider does that counts its tokens, or as one that does not. */
const provider = (usage: { input: number | undefined; output: number | undefined }) =>
  externalModel(
    new MockLanguageModelV4({
      modelId: 'hosted',
      doGenerate: async () => ({
        content: [{ type: 'text', text: '1' }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: {
          inputTokens: {
            total: usage.input,
            noCache: undefined,
            cacheRead: undefined,
            cacheWrite: undefined,
          },
          outputTokens: { total: usage.output, text: undefined, reasoning: undefined },
        },
        warnings: [],
      }),
    }),
  );

const named = (entries: Record<string, ComparedEvaluation['evaluation']>): ComparedEvaluation[] =>
  Object.entries(entries).map(([name, evaluation]) => ({ name, evaluation }));

test.each(reference.cases.map((one, at) => [at, one] as const))(
  'intervals, tests, corrections and latencies are those of SciPy, statsmodels and NumPy: case %i',
  async (_, { rows, wilson, difference, standardError, pValue, holm: corrected }) => {
    const table = await compare(
      rows.map((scores, row) => ({
        name: `row ${row}`,
        evaluation: {
          policy: `model ${row}`,
          perScenario: scores.map((success, at) => ({
            key: String(at),
            reward: null,
            success,
            milliseconds: at === 0 ? reference.times : [],
          })),
        },
      })),
    );
    expect(table.measure).toBe('success');
    for (const [at, row] of table.rows.entries()) {
      expect(row.score?.interval95?.low).toBeCloseTo(wilson[at]?.[0] ?? Number.NaN, 4);
      expect(row.score?.interval95?.high).toBeCloseTo(wilson[at]?.[1] ?? Number.NaN, 4);
      expect(row.latency?.medianMs).toBeCloseTo(reference.median, 9);
      expect(row.latency?.p90Ms).toBeCloseTo(reference.p90, 9);
      expect(row.latency?.rollouts).toBe(reference.times.length);
      if (at === 0) expect(row.difference).toBeNull();
      else {
        expect(row.difference?.estimate?.mean).toBeCloseTo(difference[at - 1] ?? Number.NaN, 12);
        expect(row.difference?.estimate?.standardError).toBeCloseTo(standardError[at - 1] ?? Number.NaN, 12);
        expect(row.difference?.pValue).toBeCloseTo(pValue[at - 1] ?? Number.NaN, 12);
        expect(row.difference?.adjustedPValue).toBeCloseTo(corrected[at - 1] ?? Number.NaN, 12);
      }
    }
  },
);

test('a row without a test is not counted in the correction', () => {
  expect(holm([null, 0.04, null, 0.01])).toEqual([null, 0.04, null, 0.02]);
  expect(holm([0.9, 0.8])).toEqual([1, 1]);
  expect(holm([])).toEqual([]);
});

test('memory, a folder, its lines and a function give the same row', async () => {
  const folder = await temporaryFolder();
  const directory = join(folder, 'after');
  const after = await scoresOf(8, { directory, prices });
  const lines = join(folder, 'after.jsonl');
  await writeFile(lines, evaluationJsonLines(after));
  const before = await scoresOf(2);
  const table = await compare(
    named({ before, memory: after, folder: directory, lines, run: () => scoresOf(8, { prices }) }),
  );
  const [first, memory, ...others] = table.rows;
  expect(first?.costPer1000).toBeNull();
  expect(memory).toMatchObject({
    policy: 'knows 8',
    scenarios: 8,
    score: { mean: 1, count: 8 },
    difference: {
      estimate: { mean: 0.75 },
      pValue: 2 / 64,
      adjustedPValue: (4 * 2) / 64,
      same: 2,
      worse: [],
    },
    latency: { rollouts: 8 },
  });
  expect(memory?.difference?.better).toEqual([2, 3, 4, 5, 6, 7].map((n) => `sum-${n}`));
  for (const { latency, name, ...row } of others) {
    expect({ ...row, name: 'memory' }).toEqual({ ...memory, latency: undefined, name: 'memory' });
    if (name !== 'run') expect(latency).toEqual(memory?.latency);
  }
  expect(JSON.parse(JSON.stringify(table))).toEqual(table);
  expect(table.scenarios[2]).toEqual({ key: 'sum-2', title: '2 + 1', scores: [0, 1, 1, 1, 1] });
});

test('tokens and money are those of the calls, and unknown where a provider counts none', async () => {
  const own = { scenarios: scenarios.slice(0, 4) };
  const counted = await scoresOf(0, { ...own, model: provider({ input: 100, output: 10 }), prices });
  const uncounted = await scoresOf(0, {
    ...own,
    model: provider({ input: undefined, output: undefined }),
    prices,
  });
  const dear = { promptTokensPerMillion: 10, sampledTokensPerMillion: 0 };
  const { rows } = await compare([
    { name: 'counted', evaluation: counted },
    { name: 'dear', evaluation: counted, prices: dear },
    { name: 'uncounted', evaluation: uncounted },
  ]);
  expect(rows.map(({ tokensPer1000, costPer1000 }) => [tokensPer1000, costPer1000])).toEqual([
    [{ promptTokens: 100_000, sampledTokens: 10_000 }, 0.2 + 0.08],
    [{ promptTokens: 100_000, sampledTokens: 10_000 }, 1],
    [null, null],
  ]);
});

test('tokens of rollouts that failed are paid, and count for those that completed', async () => {
  const half = defineEnvironment({
    name: 'half',
    scenario: z.number(),
    rollout: async ({ scenario, model }) => {
      await generateText({ model: model.languageModel, prompt: String(scenario) });
      if (scenario % 2 === 0) throw new Error('broken');
    },
    rewards: { success: () => 1 },
  });
  const evaluation = await evaluate({
    environment: half,
    scenarios: [1, 2, 3, 4, 5, 6, 7, 8],
    model: provider({ input: 100, output: 10 }),
    prices,
  });
  expect(evaluation.counts).toMatchObject({ completed: 4, failed: 4 });
  const { rows } = await compare(named({ a: evaluation, b: evaluation }));
  expect(rows[1]).toMatchObject({
    tokensPer1000: { promptTokens: 200_000, sampledTokens: 20_000 },
    latency: { rollouts: 4 },
    scenarios: 8,
    score: { count: 4 },
  });
});

test('scenarios are called by their titles, and by their keys where these are not enough', async () => {
  const titled = async (title: string | undefined, first: string, second: string) => {
    const score = (key: string, question: string) => ({
      key,
      scenario: { question },
      ...(title === undefined ? {} : { title }),
      reward: 1,
      success: 1,
    });
    const evaluation = { policy: 'm', perScenario: [score('a', first), score('b', second)] };
    return (await compare(named({ one: evaluation, two: evaluation }))).scenarios.map((row) => row.title);
  };
  expect(await titled(undefined, 'What is 1?', 'What is 2?')).toEqual(['What is 1?', 'What is 2?']);
  expect(await titled(undefined, 'What is it?', 'What is it?')).toEqual([
    'What is it? (a)',
    'What is it? (b)',
  ]);
  expect(await titled('Sum', 'What is 1?', 'What is 2?')).toEqual(['Sum (a)', 'Sum (b)']);
});

test('what cannot be compared is left out and said', async () => {
  const all = await scoresOf(8);
  const some = await scoresOf(2, { scenarios: scenarios.slice(0, 6), model: knows('some', 2, [1]) });
  const table = await compare(named({ all, some }));
  expect(table.warnings).toEqual(['some has no success for 3 scenarios of all']);
  expect(table.rows[1]).toMatchObject({
    scenarios: 6,
    difference: { estimate: { count: 5 }, onlyInFirst: ['sum-1', 'sum-6', 'sum-7'], onlyHere: [], same: 1 },
  });
  expect(table.scenarios[7]).toEqual({ key: 'sum-7', title: '7 + 1', scores: [1, null] });

  const unjudged = { ...some, perScenario: some.perScenario.map((score) => ({ ...score, success: null })) };
  const byReward = await compare(named({ all, unjudged }));
  expect(byReward.measure).toBe('reward');
  expect(byReward.warnings[0]).toBe('success is not known for unjudged, so rewards are compared');
  const bySuccess = await compare(named({ all, unjudged }), { measure: 'success' });
  expect(bySuccess.rows[1]).toMatchObject({
    score: null,
    difference: { estimate: null, pValue: null, adjustedPValue: null },
  });
  expect(describeComparison(bySuccess)).toMatch(/unjudged +unknown +unknown +unknown +unknown/);

  const strict = await scoresOf(8, { isSuccess: ({ reward }) => (reward ?? 0) > 1.4 });
  const judged = await compare(named({ all, strict }));
  expect(judged.warnings).toEqual([
    expect.stringMatching(
      /^with strict, success is judged by isSuccess [0-9a-f]{12} and was by metric success$/,
    ),
  ]);
  expect((await compare(named({ all, strict }), { measure: 'reward' })).warnings).toEqual([]);
});

test('what an earlier version stored is compared: its folder whole, its lines without cost and latency', async () => {
  const folder = await temporaryFolder();
  const directory = join(folder, 'old');
  const before = await scoresOf(4, { directory });
  const header = JSON.parse(await readFile(join(directory, 'evaluation.json'), 'utf8'));
  expect(header).not.toHaveProperty('prices');
  const old = join(folder, 'old.jsonl');
  const rows = before.perScenario.map(({ tokens: _, milliseconds: __, ...row }) =>
    JSON.stringify({ environment: 'sums', policy: 'old', ...row }),
  );
  await writeFile(old, `${rows.join('\n')}\n`);
  const { rows: found } = await compare(named({ directory, old }));
  expect(found[0]).toMatchObject({ tokensPer1000: expect.anything(), latency: { rollouts: 8 } });
  expect(found[1]).toMatchObject({
    tokensPer1000: null,
    costPer1000: null,
    latency: null,
    score: { mean: 0.5 },
  });
  // Prices that come later are kept, and a call without them leaves them.
  await scoresOf(4, { directory, prices });
  expect((await scoresOf(4, { directory })).prices).toEqual(prices);
  expect((await readEvaluation(directory)).prices).toEqual(prices);
});

test('other scenarios under the same keys are said', async () => {
  const one = await scoresOf(8);
  const moved = await scoresOf(8, {
    scenarios: scenarios.map((scenario, at) =>
      at < 2 ? { ...scenario, question: '1 + 0', answer: 2 } : scenario,
    ),
  });
  const { warnings } = await compare(named({ one, moved }));
  expect(warnings).toEqual(['2 scenarios of moved are not what one has under the same keys']);
  expect(describeComparison(compare(one, moved))).toContain(
    'warning: other scenarios have the same keys in knows 8: 2 (sum-0, sum-1)',
  );
});

test('wrong input is refused by name', async () => {
  const one = await scoresOf(8);
  const refused = (evaluations: ComparedEvaluation[], problem: string | RegExp) =>
    expect(compare(evaluations)).rejects.toThrow(problem);
  await refused(named({ one }), '`evaluations` is a list of 1');
  await refused(
    [...named({ one }), ...named({ one })],
    '`name` is "one". Give each evaluation a name of its own.',
  );
  await refused(
    named({ one, other: { ...one, environment: 'shop' } }),
    '"one" is of "sums", "other" is of "shop"',
  );
  await refused(
    [...named({ one }), { name: 'two', evaluation: one, prices: { ...prices, sampledTokensPerMillion: -1 } }],
    '`prices.sampledTokensPerMillion` is -1. Pass a number of at least 0.',
  );
  await refused(named({ one, two: 'no-such-folder' }), 'no-such-folder cannot be read');
  await expect(scoresOf(1, { prices: { ...prices, promptTokensPerMillion: Number.NaN } })).rejects.toThrow(
    '`prices.promptTokensPerMillion` is NaN.',
  );
});
