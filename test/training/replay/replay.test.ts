import { appendFile, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { defineEnvironment, deriveSeed, type RolloutGroup, RunError, train } from 'martingale';
import {
  fromGroupRecord,
  fromTrajectoryRecord,
  readRun,
  rescore,
  toTrajectoryRecord,
} from 'martingale/records';
import { replayStep } from 'martingale/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RecordedReplies } from '../../../src/training/replay/recorded-replies.ts';
import { startFakeService } from '../../model/fake-service.ts';
import { sharedFolder } from '../../support/files.ts';
import { report } from '../diagnosis/reports.ts';
import { policy, scenario, storeRun, useTools, words } from './stored-run.ts';

const folder = sharedFolder();
let service: Awaited<ReturnType<typeof startFakeService>>;
let runs = 0;
const newRun = () => join(folder, `run-${runs++}`);

beforeAll(async () => {
  service = await startFakeService({ policy });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
});

const checksum = (text: string) => [...text].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 101;
const environment = (note?: () => string) =>
  defineEnvironment({
    name: 'shelf',
    scenario,
    rollout: useTools(note),
    rewards: {
      text: ({ outcome }) => checksum(outcome.text),
      asides: { weight: 0, reward: ({ outcome }) => checksum(outcome.asides.join()) },
    },
    groupRewards: {
      rank: ({ members }) =>
        members.map(({ reward }) => members.filter((other) => other.reward < reward).length),
    },
    credit: ({ calls, reward }) => calls.map(({ index }) => reward - index),
  });

const shown = (groups: readonly RolloutGroup[]) =>
  groups.map((group) => ({
    group: group.index,
    rollouts: group.rollouts.map(({ index, attempt, seed, status, trajectory }) => {
      const { start_time: _, ...record } = trajectory.toRecord();
      return { index, attempt, seed, status, reward: trajectory.reward, ...record };
    }),
  }));

describe('a step that is replayed from its record', () => {
  test('gives the same rewards, metrics, credit and bodies, without a model', async () => {
    const runDirectory = newRun();
    const groups = await storeRun(runDirectory, service, environment());
    const statuses = groups.flatMap(({ rollouts }) => rollouts.map(({ status }) => status));
    expect(new Set(statuses)).toEqual(new Set(['completed', 'failed']));
    expect(groups[0]?.trajectories[0]?.histories.length).toBeGreaterThan(1);
    const asked = service.requests.length;
    const replayed = await replayStep({ runDirectory, step: 0, environment: environment() });
    expect(replayed.differences).toEqual([]);
    expect(replayed.refused).toEqual([]);
    expect(shown(replayed.groups)).toEqual(shown(groups));
    expect(service.requests).toHaveLength(asked);
  });

  test('has the same errors, including those of a conversation that was too long', async () => {
    const tooLong = { error: { message: 'too long', code: 'context_length_exceeded' } };
    await using narrow = await startFakeService({
      policy: ({ messages, seed = 0 }) =>
        messages.length > 1 ? { refusal: { status: 400, body: tooLong } } : { text: `${Number(seed) % 3}` },
    });
    const errors = defineEnvironment({
      name: 'shelf',
      scenario,
      rollout: async ({ model, scenario: { word } }) => {
        const first = { role: 'user' as const, content: word };
        const { text } = await generateText({ model: model.languageModel, messages: [first] });
        if (text === '0') throw new RangeError('0 is none');
        const { languageModel } = model;
        if (text === '1') await generateText({ model: languageModel, messages: [first, first] });
        return text;
      },
      atLimit: ({ reason }) => reason,
      onError: ({ error }) => String(error),
      rewards: { length: ({ outcome }) => outcome.length },
    });
    const runDirectory = newRun();
    const groups = await storeRun(runDirectory, narrow, errors);
    const reasons = groups.flatMap(({ trajectories }) => trajectories.map(({ stopReason }) => stopReason));
    expect(new Set(reasons)).toEqual(new Set(['context_limit', 'error:RangeError', null]));
    const replayed = await replayStep({ runDirectory, step: 0, environment: errors });
    expect(replayed.differences).toEqual([]);
    expect(shown(replayed.groups)).toEqual(shown(groups));
    const rescored = await rescore({ runDirectory, step: 0, environment: errors });
    expect(rescored.table.map(({ before, from }) => [before, from])).toEqual(
      rescored.table.map(({ after }) => [after, 'outcome']),
    );
  });

  test('reports where an environment is not deterministic', async () => {
    const runDirectory = newRun();
    let time = 0;
    const clock = () => ` (${time++})`;
    await storeRun(runDirectory, service, environment(clock), [{ word: 'tea' }]);
    const { differences } = await replayStep({ runDirectory, step: 0, environment: environment(clock) });
    expect(differences).not.toHaveLength(0);
    expect(differences.map(({ what }) => what).join('\n')).toMatch(
      /has other messages: messages\[3\]\.content is "tea at \d \(\d+\)" and was "tea at \d \(\d+\)"/,
    );
  });

  test('reports where rewards are not deterministic', async () => {
    const runDirectory = newRun();
    let drawn = 0;
    const random = () =>
      defineEnvironment({
        name: 'dice',
        scenario,
        rollout: useTools(),
        rewards: { luck: () => drawn++ },
      });
    await storeRun(runDirectory, service, random(), [{ word: 'tea' }]);
    const { differences } = await replayStep({ runDirectory, step: 0, environment: random() });
    expect(differences[0]?.what).toMatch(/^reward was \d+ and is \d+$/);
    expect(differences[1]?.what).toMatch(/^metrics.luck was/);
  });

  test('does not change stored data', async () => {
    const runDirectory = newRun();
    await storeRun(runDirectory, service, environment());
    const file = join(runDirectory, 'trajectories/step-0000.jsonl');
    const before = await readFile(file, 'utf8');
    await replayStep({ runDirectory, step: 0, environment: environment() });
    await rescore({ runDirectory, step: 0, environment: environment() });
    expect(await readFile(file, 'utf8')).toBe(before);
  });

  test('must belong to the run and its environment', async () => {
    const runDirectory = newRun();
    await storeRun(runDirectory, service, environment(), [{ word: 'tea' }]);
    const other = defineEnvironment({
      ...{ name: 'other', scenario },
      rollout: () => 1,
      rewards: { a: () => 1 },
    });
    await expect(replayStep({ runDirectory, step: 0, environment: other })).rejects.toThrow(
      /belongs to the environment "shelf", not to "other"/,
    );
    await expect(replayStep({ runDirectory, step: 3, environment: environment() })).rejects.toThrow(
      /no groups of "step-0003". It has: step-0000/,
    );
    await expect(readRun(newRun())).rejects.toMatchObject({
      constructor: RunError,
      code: 'invalid_run_record',
    });
  });
});

test('replies to equal messages are distinguished by their seeds, in any order', async () => {
  const groups = await storeRun(newRun(), service, environment(), [{ word: 'tea' }]);
  const trajectory = groups[0]?.trajectories[0];
  if (!trajectory) throw new TypeError('no trajectory');
  const asides = trajectory.log.calls.filter(({ messages }) => messages[0]?.content === 'again, tea');
  expect(asides).toHaveLength(2);
  const replies = new RecordedReplies(fromTrajectoryRecord(toTrajectoryRecord(trajectory)));
  for (const { index, messages, model, choice } of asides.reverse()) {
    const seed = deriveSeed(trajectory.seed, index);
    const completion = await replies.create({ model, messages: [...messages], seed });
    expect(completion.choices[0]?.token_ids).toEqual(choice.token_ids);
  }
});

describe('stored trajectories, scored again', () => {
  const rewards = { words: ({ outcome }: { outcome: { text: string } }) => outcome.text.length };
  const shorter = (asked = { rollouts: 0 }) =>
    defineEnvironment({
      name: 'shelf',
      scenario,
      rollout: async (context) => {
        asked.rollouts++;
        return useTools()(context);
      },
      rewards,
    });

  test('get new rewards and metrics from their outcomes, without the credit of the old rewards', async () => {
    const groups = await storeRun(newRun(), service, environment());
    const before = shown(groups);
    const asked = { rollouts: 0 };
    const rescored = await rescore({ groups, environment: shorter(asked) });
    expect(asked.rollouts).toBe(0);
    expect(shown(groups)).toEqual(before);
    expect(rescored.refused).toEqual([]);
    for (const { group, rollout, attempt, from, before: was, after } of rescored.table) {
      const old = groups[group]?.rollouts.find((one) => one.index === rollout && one.attempt === attempt);
      if (old?.status !== 'completed') {
        expect([was, after]).toEqual([null, null]);
        continue;
      }
      expect({ from, was }).toEqual({ from: 'outcome', was: old.reward });
      expect(z.object({ text: z.string() }).parse(old.outcome).text).toHaveLength(after ?? -1);
    }
    expect(rescored.table).toHaveLength(18);
    const [body] = rescored.groups[0]?.toTrajectoryGroup().toBody().trajectories ?? [];
    expect(body?.metrics).toMatchObject({ words: body?.reward, asides: expect.any(Number) });
    expect(JSON.stringify(body)).not.toContain('credited_reward');
  });

  test('get the same rewards from a replay as from their outcomes', async () => {
    const runDirectory = newRun();
    await storeRun(runDirectory, service, environment());
    const [outcome, replay] = await Promise.all(
      (['outcome', 'replay'] as const).map((from) =>
        rescore({ runDirectory, step: 0, environment: shorter(), from }),
      ),
    );
    const figures = (rescored: typeof outcome) =>
      rescored?.table.map(({ from: _, ...row }) => row).sort((a, b) => a.group - b.group);
    expect(figures(replay)).toEqual(figures(outcome));
    expect(replay?.table.every(({ from }) => from === 'replay')).toBe(true);
  });

  test('are replayed if rewards need the state of the rollout', async () => {
    const runDirectory = newRun();
    await storeRun(runDirectory, service, environment());
    const stateful = defineEnvironment({
      name: 'shelf',
      scenario,
      setup: () => ({ looked: 0 }),
      rollout: async ({ state, ...context }) => {
        state.looked++;
        return useTools()({ ...context, state: undefined });
      },
      rewards: { looked: ({ state }) => state.looked },
    });
    const { table, refused } = await rescore({ runDirectory, step: 0, environment: stateful });
    expect(refused).toEqual([]);
    expect(
      table.every(({ from, before, after }) => from === 'replay' && after === (before === null ? null : 1)),
    ).toBe(true);
    const forced = await rescore({ runDirectory, step: 0, environment: stateful, from: 'outcome' });
    expect(forced.refused[0]?.reason).toMatch(/state of the rollout/);
  });

  test('get rewards after a faulty reward had failed them', async () => {
    const faulty = defineEnvironment({
      name: 'shelf',
      scenario,
      rollout: useTools(),
      rewards: {
        words: () => {
          throw new Error('off by one');
        },
      },
    });
    const groups = await storeRun(newRun(), service, faulty, [{ word: 'tea' }]);
    expect(groups[0]?.trajectories).toEqual([]);
    const { table } = await rescore({ groups, environment: shorter(), from: 'replay' });
    const drewNone = groups[0]?.rollouts.filter(({ seed }) => seed % 5 !== 0).length;
    expect(table.filter(({ after }) => after !== null)).toHaveLength(drewNone ?? 0);
  });

  test('are refused group by group, with the reason, if the environment does not replay identically', async () => {
    let time = 0;
    const clock = () => ` (${time++})`;
    const dated = () =>
      defineEnvironment({
        name: 'shelf',
        scenario,
        rollout: async (context) => ({ ...(await useTools(clock)(context)), at: new Date(0) }),
        rewards,
      });
    const groups = await storeRun(newRun(), service, dated(), [{ word: 'tea' }, { word: 'oak' }]);
    const outcome = await rescore({ groups, environment: dated(), from: 'outcome' });
    expect(outcome.refused[0]?.reason).toMatch(/outcome of rollout \d.*it\.at is an instance of Date/);
    const { refused, groups: rescored } = await rescore({ groups, environment: dated() });
    expect(rescored).toEqual([]);
    expect(refused.map(({ group }) => group)).toEqual([0, 1]);
    expect(refused[0]?.reason).toMatch(/rollout \d does not replay identically/);
  });
});

test('a run directory can be read during the run, one group at a time', async () => {
  const runDirectory = newRun();
  const groups = await storeRun(runDirectory, service, environment());
  const run = await readRun(runDirectory);
  expect(await run.config()).toEqual({ environment: 'shelf' });
  expect([await run.summary(), await run.reports(), await run.evaluations()]).toEqual([null, [], []]);
  expect(await run.groupNames()).toEqual(['step-0000']);
  const read: RolloutGroup[] = [];
  for await (const record of run.groups(0)) read.push(fromGroupRecord(record));
  expect(shown(read)).toEqual(shown(groups));
});

test('a step in progress has its finished groups, without a partial line', async () => {
  const runDirectory = newRun();
  const groups = await storeRun(runDirectory, service, environment());
  const file = (end: string) => join(runDirectory, `trajectories/step-0000${end}`);
  await rename(file('.jsonl'), file('.journal.jsonl'));
  await appendFile(file('.journal.jsonl'), '{"group":3,"scen');
  const run = await readRun(runDirectory);
  expect(await run.groupNames()).toEqual(['step-0000']);
  const indexes: number[] = [];
  for await (const { group } of run.groups(0)) indexes.push(group);
  expect(indexes).toEqual(groups.map(({ index }) => index));
});

test('reports and evaluations of a run are read in order; the last of several counts', async () => {
  const runDirectory = newRun();
  await storeRun(runDirectory, service, environment(), [{ word: 'tea' }]);
  const lines = (...values: object[]) => values.map((value) => `${JSON.stringify(value)}\n`).join('');
  const evaluated = (name: string, reward: number) => ({
    type: 'evaluated',
    ...{ name, policy: 'e/p/n:step4', scenarios: 8, examples: [] },
    score: { reward, success: null },
  });
  await writeFile(
    join(runDirectory, 'metrics.jsonl'),
    lines(report(0), report(1), report(1, { reward: 0.7 })),
  );
  await writeFile(
    join(runDirectory, 'events.jsonl'),
    lines(
      evaluated('before', 0.1),
      ...[0, 1].map((step) => ({ type: 'step', ...report(step) })),
      evaluated('step-2', 0.2),
      evaluated('step-2', 0.3),
    ),
  );
  const run = await readRun(runDirectory);
  expect(await run.reports()).toEqual([report(0), report(1, { reward: 0.7 })]);
  expect((await run.evaluations()).map(({ name, step, score }) => [name, step, score.reward])).toEqual([
    ['before', 0, 0.1],
    ['step-2', 2, 0.3],
  ]);
});

test('every step and validation of a run of train() can be replayed', async () => {
  const runDirectory = newRun();
  const { reports } = await train({
    environment: environment(),
    scenarios: words,
    validation: { scenarios: words.slice(0, 1) },
    client: service.client,
    model: { project: 'p', name: 'shelf', baseModel: 'tiny' },
    ...{ steps: 2, groupsPerStep: 2, rolloutsPerGroup: 4, runDirectory },
  });
  const run = await readRun(runDirectory);
  expect(await run.reports()).toEqual(reports);
  expect((await run.evaluations()).map(({ name, step }) => [name, step])).toEqual([
    ['before', 0],
    ['after', 2],
  ]);
  expect((await run.summary())?.reason).toBe('finished');
  const names = await run.groupNames();
  expect(names).toEqual(['after', 'before', 'step-0000', 'step-0001']);
  for (const step of names) {
    const { groups, ...rest } = await replayStep({ runDirectory, step, environment: environment() });
    expect(groups).toHaveLength(step.startsWith('step') ? 2 : 1);
    expect(rest).toEqual({ differences: [], refused: [] });
  }
});
