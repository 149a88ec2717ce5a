import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type EvaluateOptions, evaluate, randomSource } from 'martingale';
import { evaluationJsonLines, readEvaluation } from 'martingale/records';
import { evaluationMatchers } from 'martingale/testing';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import { gate } from '../../src/evaluation/gate.ts';
import environment, { knows, scenarios } from '../cli/environments/sums.ts';
import { temporaryFolder } from '../support/files.ts';

expect.extend(evaluationMatchers);

type Options = Partial<EvaluateOptions<z.ZodType<(typeof scenarios)[number]>, string>>;

const scoresOf = (name: string, count: number, options: Options = {}) =>
  evaluate({ environment, scenarios, model: knows(name, count), ...options });

const success = { measure: 'success' } as const;

test('toBeat passes for a difference that is no chance, and names measure, values, interval, test and flips', async () => {
  const [before, after] = [await scoresOf('before', 2), await scoresOf('after', 8)];
  await expect(after).toBeat(before, success);
  await expect(before).not.toBeat(after, success);
  const failure = await expect(after)
    .not.toBeat(before, success)
    .catch((error: Error) => error.message);
  expect(failure).toBe(
    [
      'success: after beats before',
      'success of before: 0.250',
      'success of after: 1.000',
      'success of after minus that of before',
      'difference 0.750 [0.429, 1.000] (95%, normal, 8 scenarios)',
      'paired sign-flip permutation test, exact (64 assignments): p = 0.0313',
      'scenarios  6 better, 0 worse, 2 the same',
      'better:',
      ...[2, 3, 4, 5, 6, 7].map(
        (n) => `  sum-${n}: 0 -> 1  {"id":"sum-${n}","question":"${n} + 1","answer":${n + 1}}`,
      ),
    ].join('\n'),
  );
});

test('toBeat fails where the difference may be chance, and where there is none', async () => {
  const before = await scoresOf('before', 2);
  await expect(expect(await scoresOf('after', 5)).toBeat(before, success)).rejects.toThrow(
    'success: after does not beat before: the difference may be chance, p = 0.250 is above 0.05',
  );
  await expect(scoresOf('after', 5)).resolves.toBeat(before, { ...success, confidence: 0.75 });
  await expect(expect(before).toBeat(before)).rejects.toThrow(
    'reward: before does not beat before (baseline): it is not better',
  );
});

test('toHold passes within the margin, and tells a worse evaluation from one that may be worse', async () => {
  const before = await scoresOf('before', 8);
  await expect(before).toHold(before, { ...success, margin: 0 });
  const one = await scoresOf('one less', 7);
  await expect(one).toHold(before, { ...success, margin: 0.5 });
  await expect(expect(one).toHold(before, { ...success, margin: 0.02 })).rejects.toThrow(
    /^success: one less does not hold against before within 0\.02: it may be worse by 0\.370; more scenarios.*\n(.*\n)*worse:\n {2}sum-7: 1 -> 0/,
  );
  await expect(
    expect(await scoresOf('none', 0)).toHold(before, { ...success, margin: 0.02 }),
  ).rejects.toThrow('none does not hold against before within 0.02: it is worse by more than that');
  // A lower confidence makes the interval narrower.
  await expect(one).toHold(before, { ...success, margin: 0.21, confidence: 0.5 });
  await expect(one).not.toHold(before, { ...success, margin: 0.21 });
});

test('a stored folder, its lines and what evaluate returns are the same baseline', async () => {
  const folder = await temporaryFolder();
  const directory = join(folder, 'before');
  const before = await scoresOf('before', 8, { directory });
  const lines = join(folder, 'before.jsonl');
  await writeFile(lines, evaluationJsonLines(before));
  const own = join(folder, 'own.jsonl');
  await writeFile(own, scenarios.map(({ id }) => `${JSON.stringify({ key: id, success: true })}\n`).join(''));
  for (const stored of [directory, lines, own]) {
    const { perScenario } = await readEvaluation(stored);
    expect(perScenario.map(({ key, success: score }) => [key, score])).toEqual(
      before.perScenario.map(({ key, success: score }) => [key, score]),
    );
    await expect(stored).toHold(before, { ...success, margin: 0 });
    await expect(scoresOf('after', 5)).resolves.not.toHold(stored, { ...success, margin: 0.02 });
  }
  expect(await readEvaluation(directory)).toMatchObject({
    environment: 'sums',
    policy: 'before',
    rewards: environment.definition.rewards,
  });
});

test('evaluations that cannot be compared are errors, with .not too', async () => {
  const before = await scoresOf('before', 8);
  const refused = async (after: unknown, options: object, problem: string | RegExp) => {
    for (const matching of [expect(after), expect(after).not])
      await expect(matching.toHold(before, { margin: 0.02, ...options })).rejects.toThrow(problem);
  };
  await refused(before, { measure: 'sucess' }, '`measure` is "sucess". Pass "reward" or "success".');
  await refused(before, { margin: undefined }, '`margin` is undefined. Pass a number of at least 0.');
  await refused(before, { margin: -1 }, '`margin` is -1. Pass a number of at least 0.');
  await refused(before, { confidence: 95 }, '`confidence` is 95. Pass a number from 0.5 to 0.999.');
  await refused(before, { marign: 1 }, 'has no option `marign`');
  await refused({}, {}, '`evaluation` is an object without fields. Pass what `evaluate` returned');
  await refused(
    await scoresOf('after', 8, { scenarios: scenarios.slice(0, 7) }),
    {},
    'only before has a reward for sum-7. Evaluate both on the same scenarios',
  );
  await refused(
    await scoresOf('after', 8, { model: knows('after', 8, [3, 4]) }),
    {},
    'only before has a reward for sum-3, sum-4. Evaluate both on the same scenarios; where rollouts failed',
  );
  const unjudged = {
    ...before,
    perScenario: before.perScenario.map((score) => ({ ...score, success: null })),
  };
  await expect(expect(unjudged).toBeat(unjudged, success)).rejects.toThrow(
    'no scenario of before (baseline) or before has a success',
  );
  const few = await scoresOf('few', 8, { scenarios: scenarios.slice(0, 5) });
  await expect(expect(few).not.toBeat(few)).rejects.toThrow(
    '5 scenarios are too few for a confidence of 0.95: with fewer than 6, even a difference on every one may be chance',
  );
});

test('a stored evaluation that cannot be read is named with the reason', async () => {
  const folder = await temporaryFolder();
  const refused = async (path: string, problem: string | RegExp) =>
    expect(readEvaluation(path)).rejects.toMatchObject({
      code: 'evaluation_directory_refused',
      message: expect.stringMatching(problem),
    });
  await refused(join(folder, 'absent'), /absent cannot be read: write it with/);
  await refused(folder, /is no stored evaluation/);
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  await refused(await file('empty.jsonl', ''), /is empty/);
  await refused(await file('key.jsonl', '{"reward":1}\n'), /line 1, which is no score of a scenario: .*key/);
  await refused(await file('score.jsonl', '{"key":"a","reward":"1"}\n'), /`line.reward` is "1"/);
  await refused(await file('twice.jsonl', '{"key":"a"}\n{"key":"a"}\n'), /the scenario "a" twice.*line 2/);
  await refused(await file('broken.jsonl', '{"key":\n{"key":"a"}\n'), /line 1, which is not JSON/);

  const stopped = join(folder, 'stopped');
  const stop = new AbortController();
  const onProgress = () => stop.abort();
  await scoresOf('before', 8, { directory: stopped, signal: stop.signal, onProgress, concurrency: 1 });
  await refused(stopped, /has \d of 8 scenarios: call `evaluate` with this folder again/);
  const keyed = join(folder, 'keyed');
  await scoresOf('before', 8, { directory: keyed, key: ({ question }) => question });
  await refused(keyed, /was made with the option `key`, which is not stored/);
});

test('chance alone passes toBeat and toHold no more often than the confidence says', async () => {
  const random = randomSource(5);
  const games = 400;
  /** Success of each scenario, whose difficulties differ: the same for both, or lower by `loss` for the second. */
  const scoresWith = (difficulties: readonly number[], loss: number) => ({
    policy: `loss ${loss}`,
    perScenario: difficulties.map((difficulty, at) => ({
      key: `${at}`,
      reward: null,
      success: Number(random() < difficulty - loss),
    })),
  });
  const passes = async (loss: number, options: { margin?: number }) => {
    let count = 0;
    for (let game = 0; game < games; game++) {
      const difficulties = Array.from({ length: 24 }, () => 0.3 + 0.3 * random());
      const [before, after] = [scoresWith(difficulties, 0), scoresWith(difficulties, loss)];
      if ((await gate(after, before, { ...success, ...options })).pass) count++;
    }
    return count / games;
  };
  // The interval and the test are two-sided, so half of 5% is on the side that passes; and three standard errors.
  const most = 0.025 + 3 * Math.sqrt((0.025 * 0.975) / games);
  expect(await passes(0, {})).toBeLessThan(most);
  expect(await passes(0.2, { margin: 0.2 })).toBeLessThan(most);
  // Both find what is there.
  expect(await passes(-0.5, {})).toBeGreaterThan(0.8);
  expect(await passes(0, { margin: 0.5 })).toBeGreaterThan(0.8);
});
