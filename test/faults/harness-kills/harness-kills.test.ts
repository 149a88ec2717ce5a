import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { byTwo } from '../../support/by-two.ts';
import type { FaultPoint } from '../driver/fault.ts';
import {
  differencesOf,
  kindsOfRun,
  type Outcome,
  outcomeAfterKills,
  outcomeOf,
  runWithoutKeys,
} from './outcomes.ts';
import { type Ended, type Runs, startRuns } from './runs.ts';

let runs: Runs;
beforeAll(async () => {
  runs = await startRuns();
});
afterAll(() => runs?.close());

/** Every kind of durable step of a run. The kills below also reach a kind that is missing here. */
const stepsOfRun = [
  ...['mkdir .', 'mkdir trajectories', 'mkdir jobs'],
  ...['mkdir evaluations', 'mkdir evaluations/step-N'],
  ...whole('config.json'),
  ...whole('state.json'),
  ...whole('summary.json'),
  ...whole('jobs/warm-start.json'),
  ...whole('jobs/step-N.json'),
  ...whole('evaluations/step-N/evaluation.json'),
  ...whole('trajectories/before.jsonl'),
  ...whole('trajectories/step-N.jsonl'),
  ...whole('trajectories/after-step-N.jsonl'),
  ...whole('trajectories/after.jsonl'),
  ...['open events.jsonl', 'appendFile events.jsonl'],
  ...appended('metrics.jsonl'),
  ...appended('evaluations/step-N/groups.jsonl'),
  ...appended('trajectories/step-N.journal.jsonl'),
  'rm trajectories/step-N.journal.jsonl',
  ...['sync .', 'sync trajectories', 'sync jobs', 'sync evaluations/step-N'],
];

/** What a run without idempotency keys does too: it notes that it is about to log. */
const stepsOfLogs = [
  'mkdir logged',
  ...['step-N', 'validation-before', 'validation-after-step-N', 'validation-after'].flatMap((name) =>
    whole(`logged/${name}.json`),
  ),
  'sync logged',
];

function whole(file: string): string[] {
  return [...['open', 'appendFile', 'sync'].map((step) => `${step} ${file}.partial`), `rename ${file}`];
}

function appended(file: string): string[] {
  return ['open', 'appendFile', 'sync'].map((step) => `${step} ${file}`);
}

/**
 * Each kind of step once, in chains: a run killed at a step of the first kind is killed again after it resumes, at one
 * of the second kind and at one of the third.
 */
function chainsOf(points: readonly FaultPoint[], half: number): FaultPoint[][] {
  const lastPlaces = new Map(points.map(({ name }, place) => [name, place]));
  const kindsOfStep = [...lastPlaces].sort(([, one], [, other]) => one - other).map(([name]) => name);
  const own = kindsOfStep.filter((_, index) => index % 2 === half);
  const length = Math.ceil(own.length / 3);
  return own.slice(0, length).map((first, index) => {
    const same = points.filter(({ name }) => name === first);
    const occurrence = (index * 7) % same.length;
    const later = [own[length + index], own[2 * length + index]].filter((name) => name !== undefined);
    // In a resumed process the count begins again.
    return [{ name: first, occurrence }, ...later.map((name) => ({ name, occurrence: 0 }))];
  });
}

/** A step of resumed runs only: cutting off a partial line. It is killed there too. */
const cutsOf = [
  cutOff('trajectories/step-N.journal.jsonl', 'metrics.jsonl'),
  cutOff('evaluations/step-N/groups.jsonl', 'events.jsonl'),
];

function cutOff(...files: string[]): FaultPoint[] {
  return files.flatMap((file) =>
    [`appendFile ${file}`, `truncate ${file}`].map((name) => ({ name, occurrence: 0 })),
  );
}

/** Killed with its first job saved as requested, and again before the next run has requested it. */
const requestUnanswered = ['sync jobs', 'sync jobs', 'appendFile events.jsonl'].map(
  (name): FaultPoint => ({ name, occurrence: 0 }),
);

/** One step of each phase: its rollouts, its record, its job, its report, its end. */
const phases = [
  'sync trajectories/step-N.journal.jsonl',
  'rename trajectories/step-N.jsonl',
  'rename jobs/step-N.json',
  'appendFile metrics.jsonl',
  'appendFile summary.json.partial',
].map((name): FaultPoint => ({ name, occurrence: 0 }));

describe.each([...kindsOfRun, runWithoutKeys])('a $mode run', ({ mode, half, settings }) => {
  let points: FaultPoint[];
  let undisturbed: Outcome;

  beforeAll(async () => {
    const name = `${mode}-whole`;
    const whole = await runs.pointsOf(name, settings);
    expect(whole.ended.errors).toBe('');
    points = whole.points;
    undisturbed = await outcomeOf(runs, name, whole.ended.result);
  });

  const options = mode === 'synchronous' ? {} : { tags: ['long'] };

  test('takes exactly the durable steps that are listed here', options, () => {
    const steps = mode === 'keyless' ? [...stepsOfRun, ...stepsOfLogs] : stepsOfRun;
    expect([...new Set(points.map(({ name }) => name))].sort()).toEqual([...steps].sort());
    const { counts, record } = undisturbed;
    expect(record.metrics).toHaveLength(settings.steps);
    expect(counts.jobs).toEqual([
      ['sft', 'succeeded', 1],
      ...Array.from({ length: settings.steps }, (_, step) => ['rl', 'succeeded', step + 2]),
    ]);
    expect(counts.logs).toEqual([
      ['train', settings.steps * 2, settings.steps * 6],
      ['val', (settings.steps + 1) * 2, (settings.steps + 1) * 2],
    ]);
  });

  async function sameEndAfter(chains: readonly FaultPoint[][]): Promise<void> {
    const problems: object[] = [];
    await byTwo(chains, async (chain, index) => {
      const name = `${mode}-${chains.length}-${index}`;
      const killed: Ended[] = [];
      for (const at of chain) {
        const one = await runs.run(name, { ...settings, resume: 'auto', plan: { mode: 'kill-half', at } });
        if (!one.killed) problems.push({ at, notKilled: one });
        killed.push(one);
      }
      const ended = await runs.run(name, { ...settings, resume: 'auto' });
      const outcome = await outcomeAfterKills(runs, name, { undisturbed, killed, ended });
      const differences = differencesOf(outcome, undisturbed);
      if (differences.length > 0) problems.push({ chain, differences });
    });
    expect(problems).toEqual([]);
  }

  // In the short tier `training/resume` has this, killed at calls and events between the durable steps.
  test('killed once in each phase ends in the same state', { tags: ['long'] }, () => sameEndAfter([phases]));

  test('killed at any step, and again after it resumes, ends in the same state', { tags: ['long'] }, () =>
    sameEndAfter([...chainsOf(points, half), cutsOf[half] ?? [], requestUnanswered]),
  );
});

test('an evaluation killed at any step of its folder gives the same result as an undisturbed one', {
  tags: ['long'],
}, async () => {
  const { points, ended } = await runs.pointsOf('evaluation-whole', { task: 'evaluate' });
  expect(ended.errors).toBe('');
  const kindsOfStep = [...new Map(points.map((point) => [point.name, point])).values()];
  expect(kindsOfStep.map(({ name }) => name)).toEqual([
    'mkdir .',
    ...whole('evaluation.json'),
    'sync .',
    ...appended('groups.jsonl').filter((name) => !name.startsWith('appendFile')),
    'appendFile groups.jsonl',
  ]);
  const problems: unknown[] = [];
  await byTwo([0, 1], async (half) => {
    const name = `evaluation-${half}`;
    for (const { name: step } of kindsOfStep.filter((_, index) => index % 2 === half)) {
      const plan = { mode: 'kill-half' as const, at: { name: step, occurrence: 0 } };
      const killed = await runs.run(name, { task: 'evaluate', plan });
      if (!killed.killed) problems.push({ step, notKilled: killed });
    }
    const again = await runs.run(name, { task: 'evaluate' });
    const groups = (await runs.lines(name, 'groups.jsonl')).map(({ group }) => group).sort();
    problems.push(...differencesOf({ ...again, groups }, { ...ended, groups: [0, 1, 2, 3, 4] }));
  });
  expect(problems).toEqual([]);
});

test('a killed supervised training does not run twice if the second call has its key', {
  tags: ['long'],
}, async () => {
  const undisturbed = await runs.run('supervised-whole', { task: 'sft' });
  const counts = await runs.counts('supervised-whole');
  expect(counts.jobs).toEqual([['sft', 'succeeded', 1]]);
  for (const killAt of ['uploaded', 'asked', 'followed']) {
    const name = `supervised-${killAt}`;
    const killed = await runs.run(name, { task: 'sft', killAt });
    expect([killAt, killed.killed, killed.errors]).toEqual([killAt, true, '']);
    expect([killAt, await runs.run(name, { task: 'sft' })]).toEqual([killAt, undisturbed]);
    expect([killAt, await runs.counts(name)]).toEqual([killAt, counts]);
  }
});
