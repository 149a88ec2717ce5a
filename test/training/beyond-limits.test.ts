import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { createClient, defineEnvironment, type RolloutContext, type RunEvent, train } from 'martingale';
import { startService } from 'martingale/service';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { trainingLimits } from '../../src/contract/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { CoinEngine } from './resume/coin-engine.ts';

type Context = RolloutContext<{ id: number }>;

/** Trains two steps of two groups of four on a real service. `spoil` runs in the first rollout of each group. */
async function open(spoil: (context: Context) => number) {
  const folder = await temporaryFolder();
  const dataFolder = join(folder, 'data');
  const service = await startService({ engine: new CoinEngine(), dataFolder, log: () => undefined });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const runDirectory = join(folder, 'run');
  let listener: (event: RunEvent) => void = () => undefined;
  let started = 0;
  const environment = defineEnvironment({
    name: 'coin',
    scenario: z.object({ id: z.number() }),
    rollout: async (context) => {
      const isFirst = started++ % 4 === 0;
      const { text } = await generateText({
        model: context.model.languageModel,
        prompt: `toss ${context.scenario.id}`,
        abortSignal: context.signal,
      });
      return isFirst ? spoil(context) : Number(text);
    },
    rewards: { profit: ({ outcome }) => outcome },
  });
  type Settings = {
    resume?: boolean;
    signal?: AbortSignal;
    rolloutsPerGroup?: number;
    groupsPerStep?: number;
  };
  const run = (settings: Settings = {}) =>
    train({
      environment,
      scenarios: [0, 1, 2, 3].map((id) => ({ id })),
      client,
      model: { project: 'p', name: 'n', baseModel: 'scripted-tiny' },
      steps: 2,
      groupsPerStep: 2,
      rolloutsPerGroup: 4,
      concurrency: 1,
      runDirectory,
      onEvent: (event) => listener(event),
      ...settings,
    });
  return {
    runDirectory,
    run,
    listen: (listen: typeof listener) => {
      listener = listen;
    },
    async [Symbol.asyncDispose]() {
      await client.close();
      await service.close();
    },
  };
}

/** The failures of the first step. */
async function failuresOf(runDirectory: string): Promise<{ code: string; message: string }[]> {
  const lines = (await readFile(join(runDirectory, 'trajectories/step-0000.jsonl'), 'utf8'))
    .trimEnd()
    .split('\n');
  return lines.flatMap((line) => JSON.parse(line).failures);
}

test.each([
  { spoiled: 'a reward of 3e9', spoil: () => 3e9, code: 'reward_failed', says: /"profit" gives 3000000000/ },
  { spoiled: 'the negative time', spoil: () => -1.7e12, code: 'reward_failed', says: /-1700000000000/ },
  { spoiled: 'a reward of 1e308', spoil: () => 1e308, code: 'reward_failed', says: /1e\+308.*1000000000/ },
  {
    spoiled: 'too many metrics',
    spoil: (context: Context) => {
      for (let at = 0; at < 1025; at++) context.trajectory.metrics[`m${at}`] = at;
      return 0;
    },
    code: 'trajectory_not_sendable',
    says: /has 1026 entries in `metrics`, and at most 1024/,
  },
  {
    spoiled: 'a metric with a long name',
    spoil: (context: Context) => {
      context.trajectory.metrics['x'.repeat(1025)] = 1;
      return 0;
    },
    code: 'trajectory_not_sendable',
    says: /a name of 1025 characters in `metrics`/,
  },
  {
    spoiled: 'an object as metadata',
    spoil: (context: Context) => {
      Reflect.set(context.trajectory.metadata, 'report', { a: 1 });
      return 0;
    },
    code: 'trajectory_not_sendable',
    says: /an object with a as `metadata.report`/,
  },
  {
    spoiled: 'null as a line, and a bigint as metadata',
    spoil: (context: Context) => {
      Reflect.apply(Array.prototype.push, context.trajectory.logs, [null]);
      Reflect.set(context.trajectory.metadata, 'size', 1n);
      return 0;
    },
    code: 'trajectory_not_sendable',
    says: /1 as `metadata.size`/,
  },
  {
    spoiled: 'a bigint as a metric',
    spoil: (context: Context) => {
      Reflect.set(context.trajectory.metrics, 'size', 1n);
      return 0;
    },
    code: 'metric_not_finite',
    says: /"size" is the bigint 1/,
  },
  {
    spoiled: 'a line that is no text',
    spoil: (context: Context) => {
      Reflect.apply(Array.prototype.push, context.trajectory.logs, [new Error('x')]);
      return 0;
    },
    code: 'trajectory_not_sendable',
    says: /as `logs\[0\]`/,
  },
])('$spoiled fails its rollout by name, and the run goes on', async ({ spoil, code, says }) => {
  await using runs = await open(spoil);
  const { reason, finalStep, counts } = await runs.run();
  expect({ reason, finalStep, counts }).toEqual({
    reason: 'finished',
    finalStep: 2,
    counts: expect.objectContaining({ dispatched: 16, completed: 12, failed: 4, cancelled: 0 }),
  });
  const failures = await failuresOf(runs.runDirectory);
  expect(failures.map((failure) => failure.code)).toEqual([code, code]);
  expect(failures[0]?.message).toMatch(says);
});

test('long lines, many lines and long metadata are shortened with a mark, and the run goes on', async () => {
  await using runs = await open(({ trajectory }) => {
    trajectory.logs.push(`first ${'😀'.repeat(550_000)} last`);
    for (let line = 1; line < 20_000; line++) trajectory.logs.push(`line ${line}`);
    trajectory.metadata.page = `first ${'x'.repeat(70_000)} last`;
    return 0;
  });
  const { reason, counts } = await runs.run();
  expect([reason, counts.failed]).toEqual(['finished', 0]);
  const [group] = (await readFile(join(runs.runDirectory, 'trajectories/step-0000.jsonl'), 'utf8')).split(
    '\n',
  );
  const { logs, metadata } = JSON.parse(group ?? '').trajectories[0];
  expect(logs).toHaveLength(trainingLimits.logs);
  expect(logs[0].length).toBeLessThanOrEqual(trainingLimits.logLength);
  expect(logs[0]).toMatch(
    /^first 😀.*\[\.\.\. \d+ characters are left out: at most 1048576 are kept \.\.\.\].*😀 last$/u,
  );
  expect(logs).toContain('[... 3617 lines are left out: a log has at most 16384 lines ...]');
  expect([logs[1], logs.at(-1)]).toEqual(['line 1', 'line 19999']);
  expect(metadata.page.length).toBeLessThanOrEqual(trainingLimits.metadataLength);
  expect(metadata.page).toMatch(/^first x+ \[\.\.\. \d+ characters are left out.* x+ last$/);
});

test('a run that was stopped by such a group resumes', async () => {
  const runs = await open(() => 0);
  await using _ = runs;
  // The journal of a version that did not check: its first group has a reward that the service refuses.
  const stopping = new AbortController();
  runs.listen((event) => {
    if (event.type === 'rollouts' && event.done === event.total) stopping.abort();
  });
  expect(await runs.run({ signal: stopping.signal })).toMatchObject({ reason: 'stopped', finalStep: 0 });
  const journal = join(runs.runDirectory, 'trajectories/step-0000.journal.jsonl');
  const lines = (await readFile(journal, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(2);
  lines[0].rollouts[2].reward = 3e9;
  lines[0].trajectories[2].reward = 3e9;
  lines[1].trajectories[0].logs = ['x'.repeat(1_100_000)];
  await writeFile(journal, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  expect(await runs.run({ resume: true })).toMatchObject({ reason: 'finished', finalStep: 2 });
});

test('more rollouts and groups than a request holds are refused before the run', async () => {
  await using runs = await open(() => 0);
  await expect(runs.run({ rolloutsPerGroup: 4097 })).rejects.toThrow(
    /`rolloutsPerGroup` is 4097.*at most 4096/,
  );
  await expect(runs.run({ groupsPerStep: 16_385 })).rejects.toThrow(/at most 16384/);
});
