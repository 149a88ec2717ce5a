import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { plotLines } from '../../src/cli/run-commands/plot.ts';
import { command, output } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { makeRun } from '../view/make-run.ts';

const folder = sharedFolder();
const colours = '\u001b[31mred\u202e';

beforeAll(async () => {
  await makeRun({ runDirectory: join(folder, 'desk'), steps: 3, groupsPerStep: 3, rolloutsPerGroup: 3 });
  await makeRun({
    runDirectory: join(folder, 'other'),
    steps: 1,
    groupsPerStep: 2,
    learningRate: 3e-4,
    brevityWeight: 2,
    reply: colours,
  });
});

const martingale = (...args: string[]) => output(args);

it('runs lists the runs of a folder, newest first', async () => {
  const [head = '', ...rows] = (await martingale('runs', folder)).trimEnd().split('\n');
  expect(head).toMatch(/^RUN +STATUS +STEP +REWARD/);
  expect(rows.map((row) => row.split(/\s+/).slice(0, 3))).toEqual([
    ['other', 'finished', '1/1'],
    ['desk', 'finished', '3/3'],
  ]);
});

it('view does not write its page over a file, nor into a folder that has files', async () => {
  for (const taken of [import.meta.filename, folder])
    await expect(martingale('view', folder, '--export', taken)).rejects.toThrow(
      'is a file, or not empty: name a new or empty folder',
    );
});

it('show tells a run, a step with its worst conversations, and a group', async () => {
  const run = await martingale('show', 'desk', '--in', folder);
  expect(run).toMatch(/^desk {2}finished\n/);
  expect(run).toMatch(/before +0\.\d+ +-?0\.\d+ to \d/);
  const step = await martingale('show', join(folder, 'desk'), '--step', '1', '--worst', '2');
  expect(step).toMatch(/^step 1: 3 groups, 9 rollouts/);
  expect(step.match(/^group \d/gm)).toHaveLength(2);
  expect(step).toMatch(/user +Where is order \d+/);
  const group = JSON.parse(await martingale('show', 'desk', '--in', folder, '--group', '2', '--json'));
  expect(group).toMatchObject({ run: 'desk', which: '2', group: 2 });
  expect(group.rollouts).toHaveLength(3);
});

it('a run is found by a part of its name', async () => {
  expect(await martingale('show', 'des', '--in', folder)).toMatch(/^desk {2}finished/);
  expect(await martingale('show', 'desk', '--in', folder, '--step', '1', '--worst', '2')).toMatch(
    /1 more group: --worst 3 shows all/,
  );
});

it.each([
  ['its model', 'local/shop/desk'],
  ['its model without the owner', 'shop/desk'],
  ['a checkpoint of its model', 'local/shop/desk:step1'],
  ['a part of its name', 'e'],
])('a run is found by %s; of several the newest, and this is said', async (_, name) => {
  const { stdout, stderr, code } = await command(['show', name, '--in', folder]);
  expect([stderr, code]).toEqual([
    `${name} may be other (local/shop/desk), desk (local/shop/desk). This is the newest of them, other.\n`,
    0,
  ]);
  expect(stdout).toMatch(/^other {2}finished\n/);
});

it('compare puts evaluations of runs, by their own names, into one table', async () => {
  const args = ['compare', `${join(folder, 'desk')}:before`, 'trained=desk:after', '--in', folder];
  const text = await martingale(...args);
  expect(text).toMatch(/^success in ticket desk, each row beside .*desk:before\n/);
  expect(text).toMatch(/\ntrained +\d\.\d{3} \[.*\n/);
  const table = JSON.parse(await martingale(...args, '--json', '--measure', 'reward'));
  expect(table).toMatchObject({
    environment: 'ticket desk',
    measure: 'reward',
    rows: [
      { name: `${join(folder, 'desk')}:before`, policy: 'local/shop/desk:step0', difference: null },
      { name: 'trained', policy: 'local/shop/desk:step3', costPer1000: expect.any(Number) },
    ],
  });
  const refused = async (names: string[], problem: string) =>
    expect(martingale('compare', ...names, '--in', folder)).rejects.toThrow(problem);
  await refused(
    ['desk:before', 'other'],
    'other is not an evaluation, and cannot be compared with desk:before',
  );
  await refused(['desk:before', 'desk:soon'], 'The run "desk" has no evaluation "soon", but before, after.');
  await refused(['desk'], 'One run is named, and two are compared.');
  await refused(['desk', 'other', '--measure', 'reward'], '--measure is of evaluations');
});

it('compare shows what differs, and plot draws a figure by its name', async () => {
  const compared = await martingale('compare', 'desk', 'other', '--in', folder);
  expect(compared).toMatch(/config\.learning_rate +0\.0001 +0\.0003/);
  expect(compared).toMatch(/rewards\.brevity\.weight +1 +2/);
  expect(compared).not.toContain('rewards.success');
  const { curves } = JSON.parse(
    await martingale('plot', 'desk', 'entropy', 'brevity', '--in', folder, '--json'),
  );
  expect(curves.map(({ name, points }: { name: string; points: object[] }) => [name, points.length])).toEqual(
    [
      ['entropy', 3],
      ['brevity', 3],
    ],
  );
  await expect(martingale('plot', 'desk', 'absent', '--in', folder)).rejects.toThrow(
    /no figure absent: it has/,
  );
  await expect(martingale('show', 'absent', '--in', folder)).rejects.toThrow(
    /no run absent.*other \(.*, desk \(/,
  );
});

it('what a model wrote cannot command the terminal', async () => {
  const shown = await martingale('show', 'other', '--in', folder, '--step', '0');
  expect(shown).toContain('red');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there.
  expect(shown).not.toMatch(/[\u001b\u202e]/);
});

it('a curve reaches from its lowest to its highest value, in as many columns as fit', () => {
  const points = Array.from({ length: 100 }, (_, step) => ({ step, value: step }));
  const lines = plotLines('rising', points, { columns: 30, rows: 4 });
  expect(lines[0]).toBe('rising, last 99');
  expect(lines.slice(1, 5).map((line) => line.length)).toEqual([30, 30, 30, 30]);
  expect(lines[1]).toMatch(/^ +99 │ +.*[▆▇█]$/);
  expect(lines[4]).toMatch(/^ +0 │▁/);
  const gaps = [0, null, 2, 3, null, null].map((value, step) => ({ step, value }));
  expect(plotLines('gaps', gaps, { columns: 80, rows: 2 })).toEqual([
    'gaps, last 3, no value in 3 of 6 steps',
    '  3 │  ▃█  ',
    '  0 │▁ ██  ',
    '     0    5',
  ]);
  expect(plotLines('flat', [{ step: 3, value: 1 }], { columns: 80, rows: 2 })).toHaveLength(4);
});
