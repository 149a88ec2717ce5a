import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { optimize } from 'martingale';
import { beforeAll, expect, test } from 'vitest';
import { RunViews } from '../../src/view/index.ts';
import { changesOf } from '../../src/view/page/optimization/changes.ts';
import { addCode, codes, knowingModel, scenarios, validation } from '../optimization/codes.ts';
import { output as printed } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';

const folder = sharedFolder();
const views = new RunViews([folder]);

beforeAll(async () => {
  await optimize({
    environment: codes,
    scenarios,
    validation,
    model: knowingModel().model,
    reflect: addCode,
    iterations: 4,
    runDirectory: join(folder, 'codes'),
    progress: false,
    prices: { promptTokensPerMillion: 1e6, sampledTokensPerMillion: 0 },
  });
});

test('an optimisation is a run among others, with its candidates, iterations and cost', async () => {
  const { runs } = await views.list();
  expect(runs).toHaveLength(1);
  const run = await views.run('codes');
  const { optimization } = run;
  if (!optimization) throw new TypeError('no optimization');
  const best = optimization.candidates[optimization.best];
  expect(run).toMatchObject({
    status: 'finished',
    environment: 'codes',
    model: 'scripted',
    step: 4,
    steps: 4,
    reward: best?.reward,
    success: best?.success,
    cost: optimization.spent.rollouts,
    tokens: 2 * optimization.spent.rollouts,
  });
  expect(run.rewards).toEqual(optimization.candidates.map(({ reward }) => reward));
  expect(optimization.scenarios).toEqual(validation.map(({ word }) => word));
  expect(best?.reward).toBeGreaterThan(0);
  expect(optimization.candidates[0]).toMatchObject({ parent: null, text: null, texts: codes.texts });
  for (const { wins, rewards } of optimization.candidates)
    expect(wins).toEqual(
      rewards.flatMap((reward, at) =>
        optimization.candidates.every((other) => (other.rewards[at] ?? 0) <= reward) ? [at] : [],
      ),
    );
  expect(optimization.iterations.map(({ iteration }) => iteration)).toEqual([1, 2, 3, 4]);
});

test('each validation is shown as a step is, and two of them can be compared', async () => {
  const { names, evaluations, optimization } = await views.run('codes');
  const which = optimization?.candidates.map((candidate) => candidate.which) ?? [];
  expect(names).toEqual(expect.arrayContaining([...which, 'before-1', 'after-1']));
  expect(evaluations.map(({ name }) => name)).toEqual(which);
  expect((await views.step('codes', 'validation-0')).groups).toHaveLength(validation.length);
  const last = which.at(-1) ?? '';
  const flips = await views.flips({ id: 'codes', which: 'validation-0' }, { id: 'codes', which: last });
  expect(flips.wins).toBeGreaterThan(0);
});

test('`martingale show` prints the tree and what changed', async () => {
  const output = await printed(['show', join(folder, 'codes')]);
  expect(output).toMatch(/^iteration +4 of 4$/m);
  expect(output).toMatch(/^CANDIDATE +CHANGED +REWARD +SUCCESS +WINS *$/m);
  expect(output).toMatch(/^ +1.* (system|hint) /m);
  expect(output).toContain('(best)');
  expect(output).toMatch(/\w+=\d/);
  expect(output).toContain('texts.json');
});

test('half a line of a run in progress is left out', async () => {
  const before = await views.run('codes');
  await appendFile(join(folder, 'codes', 'optimization.jsonl'), '{"type":"iter');
  expect((await views.run('codes')).optimization).toEqual(before.optimization);
});

test('differences of texts are whole: each side is its text, and equal texts have one piece', () => {
  const text = fc.array(fc.constantFrom('a', 'b', ' ', '\n', 'rule')).map((words) => words.join(''));
  fc.assert(
    fc.property(text, text, (first, second) => {
      const pieces = changesOf(first, second);
      const side = (of: string) =>
        pieces
          .filter((piece) => piece.in === 'both' || piece.in === of)
          .map((piece) => piece.text)
          .join('');
      expect(side('first')).toBe(first);
      expect(side('second')).toBe(second);
      if (first === second) expect(pieces.length).toBeLessThanOrEqual(1);
    }),
  );
  expect(changesOf('Be short now.', 'Be very short now.')).toEqual([
    { in: 'both', text: 'Be ' },
    { in: 'second', text: 'very ' },
    { in: 'both', text: 'short now.' },
  ]);
});
