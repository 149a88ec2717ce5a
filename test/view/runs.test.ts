import { appendFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readRun } from '../../src/training/index.ts';
import { type RunDetail, type RunRow, RunViews } from '../../src/view/index.ts';
import { timelineOf } from '../../src/view/step-detail.ts';
import { sharedFolder, temporaryFolder } from '../support/files.ts';
import { makeRun } from './make-run.ts';

const folder = sharedFolder();
const whileActive: RunRow[] = [];
let views: RunViews;
let run: RunDetail;

beforeAll(async () => {
  const seen: Promise<void>[] = [];
  views = new RunViews([folder]);
  await makeRun({
    runDirectory: join(folder, 'desk', 'training'),
    steps: 4,
    groupsPerStep: 4,
    onEvent: ({ type }) => {
      if (type === 'step') seen.push(views.list().then(({ runs }) => void whileActive.push(...runs)));
    },
  });
  await Promise.all(seen);
  run = await views.run('desk');
});

/** A copy of the run, to break. */
async function copyOfRun(): Promise<{ root: string; path: string }> {
  const root = await temporaryFolder();
  const path = join(root, 'copy');
  await cp(join(folder, 'desk', 'training'), path, { recursive: true });
  return { root, path };
}

const statusIn = async (root: string) => (await new RunViews([root]).list()).runs[0];

describe('the list of runs', () => {
  it('has a run while it is active and when it has ended, by its folder without `training`', async () => {
    const { runs, folders } = await views.list();
    expect(folders).toEqual([folder]);
    expect(runs).toHaveLength(1);
    expect(runs[0]).toMatchObject({ id: 'desk', name: 'desk', status: 'finished', step: 4, steps: 4 });
    expect(runs[0]?.rewards).toHaveLength(4);
    expect(runs[0]?.cost).toBeGreaterThan(0);
    expect(whileActive[0]?.status).toBe('running');
  });

  it('calls a run without an end crashed, also one that was resumed after its end', async () => {
    const killed = await copyOfRun();
    await rm(join(killed.path, 'summary.json'));
    expect(await statusIn(killed.root)).toMatchObject({ status: 'crashed', step: 4 });
    const resumed = await copyOfRun();
    const metrics = join(resumed.path, 'metrics.jsonl');
    const [first = ''] = (await readFile(metrics, 'utf8')).split('\n');
    await appendFile(metrics, `${JSON.stringify({ ...JSON.parse(first), step: 4 })}\n`);
    expect(await statusIn(resumed.root)).toMatchObject({ status: 'crashed', step: 5 });
  });

  it('shows a run that cannot be read with the reason, and the others', async () => {
    const { root, path } = await copyOfRun();
    await cp(path, join(root, 'other'), { recursive: true });
    await writeFile(join(path, 'config.json'), '{"environment": 3}');
    const { runs } = await new RunViews([root]).list();
    const broken = runs.find(({ id }) => id === 'copy');
    expect(broken).toMatchObject({ status: 'broken', problem: expect.stringContaining('config.json') });
    expect(runs.find(({ id }) => id === 'other')?.status).toBe('finished');
    expect((await new RunViews([root]).run('copy')).reports).toEqual([]);
  });

  it('passes over folders that hold no run, and one that does not exist', async () => {
    const root = await temporaryFolder();
    await mkdir(join(root, 'a', 'b'), { recursive: true });
    await writeFile(join(root, 'a', 'config.json'), '{}');
    expect((await new RunViews([root, join(root, 'absent')]).list()).runs).toEqual([]);
    await expect(views.run('absent')).rejects.toThrow('There is no run "absent"');
  });
});

describe('a run', () => {
  it('has its reports, validations with their intervals, and the names of its groups in order', () => {
    expect(run.reports.map(({ step }) => step)).toEqual([0, 1, 2, 3]);
    expect(run.stepsApart).toBe(1);
    expect(run.evaluations.map(({ name }) => name)).toEqual(['before', 'after']);
    for (const { reward, rewardInterval } of run.evaluations) {
      const [low, high] = rewardInterval ?? [0, 0];
      expect(low).toBeLessThan(reward);
      expect(high).toBeGreaterThan(reward);
    }
    expect(run.names).toEqual(['0', '1', '2', '3', 'before', 'after']);
  });
});

describe('a step', () => {
  it('has all groups, and a histogram that counts each completed rollout once', async () => {
    const { groups, bins, report, previous, next } = await views.step('desk', '1');
    const rewards = groups.flatMap(({ rollouts }) => rollouts.flatMap(({ reward }) => reward ?? []));
    expect(groups).toHaveLength(4);
    expect(rewards).toHaveLength(report?.completed ?? -1);
    expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(rewards.length);
    expect([previous, next]).toEqual(['0', '2']);
  });

  it('says which lines cannot be read, and shows the others; half a last line is no problem', async () => {
    const { root, path } = await copyOfRun();
    const file = join(path, 'trajectories', 'step-0001.jsonl');
    const text = await readFile(file, 'utf8');
    await writeFile(file, `{"group": 1}\n${text}{"group": 9, "roll`);
    const { groups, problems } = await new RunViews([root]).step('copy', '1');
    expect(groups).toHaveLength(4);
    expect(problems).toEqual([expect.stringMatching(/^line 1: /)]);
  });

  it('reads the journal of a step that goes on, again when it has grown', async () => {
    const { root, path } = await copyOfRun();
    const whole = join(path, 'trajectories', 'step-0003.jsonl');
    const lines = (await readFile(whole, 'utf8')).trimEnd().split('\n');
    await rm(whole);
    const journal = join(path, 'trajectories', 'step-0003.journal.jsonl');
    const own = new RunViews([root]);
    await writeFile(journal, `${lines[1]}\n`);
    expect((await own.step('copy', '3')).groups.map(({ group }) => group)).toEqual([1]);
    await appendFile(journal, `${lines[0]}\n`);
    expect((await own.step('copy', '3')).groups.map(({ group }) => group)).toEqual([0, 1]);
  });

  it('refuses a step that is not there, by the names that are', async () => {
    await expect(views.step('desk', '77')).rejects.toThrow(
      /no groups of "77", but of 0, 1, 2, 3, before, after/,
    );
    await expect(views.step('desk', '../../config')).rejects.toThrow('no groups of');
    await expect(views.group('desk', '0', 99)).rejects.toThrow('no group 99');
    await expect(views.rollout('desk', '0', 0, 99)).rejects.toThrow('from 0: there is no 99');
  });
});

describe('a group', () => {
  it("has the advantages of GRPO's formula, which add up to 0", async () => {
    const found = (await views.step('desk', '1')).groups.find(
      ({ hasSignal, rollouts }) => hasSignal && rollouts.every(({ status }) => status === 'completed'),
    );
    const { rollouts } = await views.group('desk', '1', found?.group ?? 0);
    const rewards = rollouts.map(({ reward }) => reward ?? 0);
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    const deviation = Math.sqrt(
      rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / rewards.length,
    );
    for (const [at, { advantage }] of rollouts.entries())
      expect(advantage).toBeCloseTo(((rewards[at] ?? 0) - mean) / (deviation + 1e-6), 9);
  });

  it('has the conversation and metrics of each rollout, as the record has them', async () => {
    const reader = await readRun(join(folder, 'desk', 'training'));
    for await (const record of reader.groups(0)) {
      const { rollouts, scenario } = await views.group('desk', '0', record.group);
      expect(scenario).toEqual(record.scenario);
      for (const { rollout, turns, metrics, status } of rollouts) {
        if (status !== 'completed') continue;
        const entry = record.rollouts[rollout];
        const trajectory = entry?.status === 'completed' ? record.trajectories[entry.trajectory] : undefined;
        expect(metrics).toEqual(trajectory?.metrics);
        expect(turns).toHaveLength(trajectory?.messages_and_choices.length ?? -1);
        expect(turns.at(-1)).toMatchObject({ role: 'assistant', call: 0 });
      }
    }
  });
});

describe('a rollout', () => {
  it('has its tokens with log-probabilities, and whether they train', async () => {
    const { groups } = await views.step('desk', '1');
    const group = groups.find(({ hasSignal }) => hasSignal)?.group ?? 0;
    const { rollouts } = await views.group('desk', '1', group);
    const at = rollouts.findIndex(({ advantage }) => (advantage ?? 0) !== 0);
    const detail = await views.rollout('desk', '1', group, at);
    const [reply] = detail.histories[0]?.replies ?? [];
    expect(reply).toMatchObject({ call: 0, trains: true, why: null, advantage: rollouts[at]?.advantage });
    expect(reply?.tokens.length).toBeGreaterThan(3);
    for (const { logprob, id } of reply?.tokens ?? []) {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(id).toBeGreaterThanOrEqual(0);
    }
    const evaluated = await views.rollout('desk', 'before', 0, 0);
    expect(evaluated.histories[0]?.replies[0]).toMatchObject({
      trains: false,
      why: 'evaluations do not train',
    });
  });

  it('has stretches of time that follow each other to its end', async () => {
    const { stretches, milliseconds } = await views.rollout('desk', '1', 0, 0);
    expect(stretches.some(({ kind }) => kind === 'sampling')).toBe(true);
    for (const [at, { start, end }] of stretches.entries()) {
      expect(end).toBeGreaterThan(start);
      expect(start).toBeGreaterThanOrEqual((stretches[at - 1]?.end ?? 0) - 1);
    }
    expect(stretches.at(-1)?.end).toBeLessThanOrEqual(milliseconds + 1);
  });

  it('that failed has its reason, with the line that threw', async () => {
    const failed = (
      await Promise.all(run.names.map(async (which) => (await views.step('desk', which)).failures))
    ).flat();
    const [failure] = failed.filter(({ at }) => at !== null);
    expect(failure?.at).toContain('make-run.ts');
    expect(failure?.stack).toContain(failure?.message);
  });
});

describe('two evaluations', () => {
  it('are paired by scenario, with the flips in order of their size', async () => {
    const { flips, wins, losses, ties, difference, a, b } = await views.flips(
      { id: 'desk', which: 'before' },
      { id: 'desk', which: 'after' },
    );
    expect(wins + losses + ties).toBe(12);
    expect(flips).toHaveLength(wins + losses);
    const sizes = flips.map((flip) => Math.abs(flip.difference));
    expect(sizes).toEqual([...sizes].sort((x, y) => y - x));
    expect(difference?.mean).toBeCloseTo(flips.reduce((sum, flip) => sum + flip.difference, 0) / 12, 9);
    expect([a.policy, b.policy]).toEqual(run.evaluations.map(({ policy }) => policy));
    const same = await views.flips({ id: 'desk', which: 'before' }, { id: 'desk', which: 'before' });
    expect(same).toMatchObject({ wins: 0, losses: 0, flips: [], measure: 'success' });
  });
});

it('a timeline may have 150,000 rollouts', async () => {
  const rollouts = Array.from({ length: 150_000 }, (_, rollout) => ({
    ...{
      rollout,
      status: 'completed',
      reward: 1,
      version: 0,
      start: 1000 + rollout,
      milliseconds: 5,
      stretches: [],
    },
  }));
  const run = { id: 'desk', folder: join(folder, 'desk', 'training') };
  const found = { run, which: '2', step: 2, file: { groups: [{ group: 0, rollouts }] } };
  const { lanes, milliseconds } = await timelineOf(found as unknown as Parameters<typeof timelineOf>[0]);
  expect([lanes.length, milliseconds]).toEqual([150_000, 150_004]);
});

it('a timeline shows a training of less than a millisecond', async () => {
  const { root, path } = await copyOfRun();
  const file = join(path, 'events.jsonl');
  const begun = new Map<number, string>();
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  const changed = lines.map((line) => {
    const event = JSON.parse(line);
    if (event.type !== 'job') return line;
    if (event.status === 'submitted') begun.set(event.step, event.time);
    return JSON.stringify({ ...event, time: begun.get(event.step) ?? event.time });
  });
  await writeFile(file, `${changed.join('\n')}\n`);
  const { trainer, milliseconds } = await new RunViews([root]).timeline('copy', '2');
  expect(trainer.at(-1)).toMatchObject({ start: milliseconds, end: milliseconds });
});

it('a timeline has a lane for each rollout, within the time of the step', async () => {
  const { lanes, milliseconds, trainer } = await views.timeline('desk', '2');
  expect(lanes).toHaveLength(24);
  expect(Math.min(...lanes.map(({ start }) => start))).toBe(0);
  expect(Math.max(...lanes.map(({ end }) => end))).toBeLessThanOrEqual(milliseconds);
  expect(new Set(lanes.map(({ version }) => version)).size).toBe(1);
  for (const { start, end } of trainer) expect(end).toBeGreaterThanOrEqual(start);
  // The training of the step comes after its rollouts, and is the end of it; its times are whole milliseconds.
  expect(Math.abs(Math.max(...trainer.map(({ end }) => end)) - milliseconds)).toBeLessThanOrEqual(2);
});
