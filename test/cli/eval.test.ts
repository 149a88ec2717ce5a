import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { evaluate } from 'martingale';
import { evaluationJsonLines } from 'martingale/records';
import { expect, it } from 'vitest';
import { command } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import environment, { knows, scenarios } from './environments/sums.ts';

const folder = sharedFolder();
const file = join(import.meta.dirname, 'environments/sums.ts');
const martingale = (...args: string[]) => command(['eval', ...args]);

/** Evaluates a scripted model, and leaves its calls and its lines. */
async function stored(name: string, count: number) {
  const [calls, lines] = [join(folder, `${name}-calls.jsonl`), join(folder, `${name}.jsonl`)];
  const evaluation = await evaluate({ environment, scenarios, model: knows(name, count).recordingTo(calls) });
  await writeFile(lines, evaluationJsonLines(evaluation));
  return { calls, lines };
}

it('exits with 1 on a regression and 0 otherwise, with recorded calls or stored evaluations alone', async () => {
  const [good, bad] = [await stored('good', 8), await stored('bad', 3)];
  const gate = ['--margin', '0.02', '--measure', 'success'];
  const same = await martingale(file, '--calls', good.calls, '--against', good.lines, ...gate);
  expect(same.code).toBe(0);
  expect(same.stdout).toContain('success: good holds against good (baseline) within 0.02');
  const worse = await martingale(file, '--calls', bad.calls, '--against', good.lines, '--json', ...gate);
  expect(worse.code).toBe(1);
  expect(worse.stderr).toMatch(
    /success: bad does not hold against good within 0\.02: it is worse by more than that\n(.*\n)+worse:\n {2}sum-\d: 1 -> 0/,
  );
  // Standard output is a stored evaluation again.
  expect(
    worse.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).policy),
  ).toEqual(Array(8).fill('bad'));

  const alone = await martingale(bad.lines, '--against', good.lines, ...gate);
  expect([alone.code, alone.stdout.trim()]).toEqual([
    1,
    worse.stderr.trim().slice(worse.stderr.trim().indexOf('success: bad')),
  ]);
  expect((await martingale(bad.lines, '--against', bad.lines, ...gate)).code).toBe(0);
  // Without a margin it must be better.
  const better = await martingale(
    good.lines,
    '--against',
    bad.lines,
    '--measure',
    'success',
    '--confidence',
    '0.9',
  );
  expect([better.code, better.stdout]).toEqual([0, expect.stringContaining('success: good beats bad')]);
  expect((await martingale(good.lines, '--against', good.lines)).code).toBe(1);
});

it('records the calls of a model, from which it answers without one', async () => {
  const [crossing, calls, out] = [
    join(import.meta.dirname, 'environments/crossing.ts'),
    join(folder, 'calls.jsonl'),
    join(folder, 'out'),
  ];
  const recorded = await martingale(crossing, '--record', calls, '--json');
  const replayed = await martingale(crossing, '--calls', calls, '--json', '--out', out);
  const untimed = (lines: string) => lines.replaceAll(/"milliseconds":\[[\d.]+\]/g, '');
  expect(untimed(replayed.stdout)).toBe(untimed(recorded.stdout));
  const { stderr, code } = await martingale(crossing, '--calls', calls, '--against', out, '--margin', '1');
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining('3 scenarios are too few for a confidence of 0.95'),
  ]);
});

it.each([
  [['--margin', '0.1'], '--margin needs --against'],
  [['--calls', 'x', '--record', 'y'], 'cannot be used with'],
  // Before any rollout: there is no record `absent-calls.jsonl` either.
  [['--against', 'absent.jsonl', '--calls', 'absent-calls.jsonl'], 'absent.jsonl cannot be read'],
  [['--against', 'absent.jsonl', '--measure', 'sucess'], 'Allowed choices are reward, success'],
])('refuses %j', async (flags, problem) => {
  expect(await martingale(file, ...flags)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(problem),
  });
});

it('refuses a stored evaluation that is compared with nothing, or with flags of a model', async () => {
  const { lines } = await stored('lone', 8);
  expect(await martingale(lines)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('name the one to compare it with'),
  });
  expect(await martingale(lines, '--against', lines, '--out', 'x')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--out has no effect on a stored evaluation'),
  });
});
