import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { RunViews } from '../../src/view/index.ts';
import { sharedFolder } from '../support/files.ts';
import { makeRun } from './make-run.ts';

const folder = sharedFolder();

it('an interval holds no value that the measure cannot have', async () => {
  const run = join(folder, 'desk');
  await makeRun({ runDirectory: run, steps: 2, groupsPerStep: 3, rolloutsPerGroup: 4 });
  const events = join(run, 'events.jsonl');
  const lines = (await readFile(events, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const wide = lines.map((event) =>
    event.type === 'evaluated'
      ? { ...event, intervals: { reward: [-0.32, 1.987], success: [-0.1, 1.002] } }
      : event,
  );
  await writeFile(events, wide.map((event) => `${JSON.stringify(event)}\n`).join(''));
  const { evaluations, reports } = await new RunViews([folder]).run('desk');
  const ranges = reports.flatMap(({ comparison }) => comparison?.rewardRange ?? []);
  const seen = [Math.min(...ranges.map(({ min }) => min)), Math.max(...ranges.map(({ max }) => max))];
  expect(evaluations.length).toBeGreaterThan(1);
  for (const { rewardInterval, successInterval } of evaluations) {
    expect(rewardInterval).toEqual(seen);
    expect(successInterval).toEqual([0, 1]);
  }
});
