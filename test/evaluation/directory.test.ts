import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { generateText } from 'ai';
import { createClient, defineEnvironment, ModelHandle } from 'martingale';
import { RolloutGroup } from 'martingale/loop';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { EvaluationDirectory } from '../../src/evaluation/evaluation-directory.ts';
import { type FakePolicy, startFakeService } from '../model/fake-service.ts';
import { readJsonLines, sharedFolder } from '../support/files.ts';
import { fromSource } from '../support/programs.ts';
import { digitOf, evaluateGuessing, guessing, guessingScenarios } from './guessing.ts';

const folder = sharedFolder();

const digits: FakePolicy = ({ seed }) => ({ text: digitOf(seed) });
const program = fileURLToPath(new URL('evaluation-program.ts', import.meta.url));
const keptGroups = async (directory: string): Promise<number[]> =>
  (await readJsonLines(join(directory, 'groups.jsonl'))).map(({ group }) => group);

function start(baseUrl: string, directory: string): ChildProcess {
  const child = spawn(process.execPath, [...fromSource, program, baseUrl, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return child;
}

test('a killed evaluation continues in another process and counts every scenario once', {
  tags: ['long'],
}, async () => {
  const directory = join(folder, 'killed');
  let calls = 0;
  const midway = Promise.withResolvers<void>();
  const killed = Promise.withResolvers<void>();
  await using service = await startFakeService({
    policy: async ({ seed }) => {
      if (++calls === 70) midway.resolve();
      if (calls >= 70) await killed.promise;
      return { text: digitOf(seed) };
    },
  });
  const first = start(service.baseUrl, directory);
  await midway.promise;
  // The calls are held from here on; finished groups are being written to disk.
  await expect.poll(async () => (await keptGroups(directory)).length).toBeGreaterThan(3);
  first.kill('SIGKILL');
  await once(first, 'exit');
  killed.resolve();
  const before = await keptGroups(directory);
  expect(before.length).toBeGreaterThan(3);
  expect(before.length).toBeLessThan(24);
  // A process may be killed in the middle of a line too.
  await appendFile(join(directory, 'groups.jsonl'), '{"group":23,"scenario":{"i');

  const callsBefore = service.requests.length;
  const second = start(service.baseUrl, directory);
  if (!second.stdout) throw new TypeError('no stdout');
  const [output, [code]] = await Promise.all([text(second.stdout), once(second, 'exit')]);
  expect(code).toBe(0);
  const kept = await keptGroups(directory);
  expect(kept.slice(0, before.length)).toEqual(before);
  expect([...kept].sort((a, b) => a - b)).toEqual(guessingScenarios.map(({ id }) => id));
  const repeatedCalls = service.requests.slice(callsBefore);
  expect(repeatedCalls).toHaveLength((24 - before.length + (before.includes(5) ? 1 : 0)) * 3 * 2);

  await using fresh = await startFakeService({ policy: digits });
  const { groups: _, seconds: __, ...whole } = await evaluateGuessing(fresh.baseUrl);
  // Latencies differ.
  const comparable = (text: string) =>
    JSON.parse(text, (name, value) => (name === 'milliseconds' ? value.length : value));
  expect(comparable(output)).toEqual(comparable(JSON.stringify(whole)));
  expect(whole.counts).toEqual({ dispatched: 72, completed: 69, failed: 3, cancelled: 0 });
});

test('a finished evaluation is read back without a call', async () => {
  const directory = join(folder, 'finished');
  await using service = await startFakeService({ policy: digits });
  const progress: object[] = [];
  const first = await evaluateGuessing(service.baseUrl, { directory });
  const callCount = service.requests.length;
  const again = await evaluateGuessing(service.baseUrl, {
    directory,
    rerunFailed: false,
    onProgress: (report) => progress.push(report),
  });
  expect(service.requests).toHaveLength(callCount);
  expect(progress).toEqual([{ done: 72, total: 72 }]);
  const bodies = (evaluation: typeof first) =>
    evaluation.groups.map((group) => JSON.stringify(group.toTrajectoryGroup().toBody()));
  expect(bodies(again)).toEqual(bodies(first));
  const { seconds: _, groups: __, ...results } = first;
  expect(again).toMatchObject(results);
  // Scored again, with another definition of success.
  const scored = await evaluateGuessing(service.baseUrl, {
    directory,
    rerunFailed: false,
    isSuccess: ({ reward }) => (reward ?? 0) >= 0.9,
  });
  expect(scored.success?.mean).toBeLessThan(first.success?.mean ?? 0);
  expect(service.requests).toHaveLength(callCount);
});

test('a stopped evaluation keeps the finished groups and runs the others again', async () => {
  const directory = join(folder, 'stopped');
  const stop = new AbortController();
  let calls = 0;
  await using service = await startFakeService({
    policy: ({ seed }) => {
      if (++calls === 40) stop.abort(new Error('enough'));
      return { text: digitOf(seed) };
    },
  });
  const stopped = await evaluateGuessing(service.baseUrl, { directory, signal: stop.signal });
  expect(stopped.counts.cancelled).toBeGreaterThan(0);
  expect((await keptGroups(directory)).length).toBeLessThan(24);
  const whole = await evaluateGuessing(service.baseUrl, { directory });
  expect(whole.counts).toEqual({ dispatched: 72, completed: 69, failed: 3, cancelled: 0 });
  expect([...(await keptGroups(directory))].sort((a, b) => a - b)).toEqual(
    guessingScenarios.map(({ id }) => id),
  );
});

test('scenarios with a failed rollout run again; the group with more completed rollouts counts', async () => {
  const directory = join(folder, 'outage');
  await using service = await startFakeService({ policy: digits });
  let away: readonly number[] = [];
  let ran: number[] = [];
  const environment = defineEnvironment({
    name: 'guessing',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ scenario: { id }, model }) => {
      const attempt = ran.filter((other) => other === id).length;
      ran.push(id);
      if (away.includes(id) && !(id === 2 && attempt === 0)) throw new Error('database is away');
      return Number((await generateText({ model: model.languageModel, prompt: `guess ${id}` })).text);
    },
    rewards: { digit: ({ outcome }) => outcome },
  });
  const call = async (down: readonly number[], rerunFailed?: boolean) => {
    [away, ran] = [down, []];
    const { counts, reward } = await evaluateGuessing(service.baseUrl, {
      environment,
      directory,
      rerunFailed,
    });
    return {
      completed: counts.completed,
      count: reward?.count,
      ran: [...new Set(ran)].sort((a, b) => a - b),
    };
  };
  const all = guessingScenarios.map(({ id }) => id);
  // Of scenario 2 one rollout completes.
  expect(await call([2, 3, 5])).toEqual({ completed: 64, count: 22, ran: all });
  const lines = (await keptGroups(directory)).length;
  expect(await call([], false)).toEqual({ completed: 64, count: 22, ran: [] });
  // All repeated rollouts fail now, except 5: the earlier results are kept.
  const worse = await call([2, 3]);
  expect(worse).toEqual({ completed: 67, count: 23, ran: [2, 3, 5] });
  expect((await keptGroups(directory)).slice(lines)).toEqual([5]);
  expect(await call([])).toEqual({ completed: 72, count: 24, ran: [2, 3] });
  expect(await call([])).toEqual({ completed: 72, count: 24, ran: [] });
});

test('a folder of another evaluation or of something else is refused with the difference', async () => {
  const directory = join(folder, 'header');
  await using service = await startFakeService({ policy: digits });
  const few = { scenarios: guessingScenarios.slice(0, 2), directory };
  await evaluateGuessing(service.baseUrl, few);
  const refused = (options: Parameters<typeof evaluateGuessing>[1]) =>
    expect(evaluateGuessing(service.baseUrl, { ...few, ...options })).rejects;
  await refused({ seed: 7 }).toThrow('`seed` was 6 and is 7');
  await refused({ temperature: 'agent' }).toThrow('`temperature` was 0 and is "agent"');
  const client = createClient({ baseUrl: service.baseUrl, apiKey: 'key' });
  const model = new ModelHandle({ client, name: 'a/b/c:step7' });
  await refused({ model: model.with({ topP: 0.5 }) }).toThrow(
    '`sampling` was {"temperature":0} and is {"temperature":0,"topP":0.5}',
  );
  await refused({ model: model.at(8) }).toThrow('`policy` was "a/b/c:step7" and is "a/b/c:step8"');
  await client.close();
  await refused({ rolloutsPerScenario: 4 }).toThrow('`rolloutsPerScenario` was 3 and is 4');
  await refused({ scenarios: [{ id: 0 }, { id: 9 }] }).toThrow('`scenarioKeys` was');
  await refused({ scenarios: [{ id: 0 }] }).toThrow('`scenarios` was 2 and is 1');
  await refused({ directory: folder }).toThrow('is not empty and has no evaluation.json');
  await appendFile(join(directory, 'groups.jsonl'), '{"group":1}\n');
  await refused({}).toThrow(/groups\.jsonl:3: A group record/);
  await writeFile(join(directory, 'evaluation.json'), 'nonsense');
  await refused({}).toMatchObject({ code: 'evaluation_directory_refused' });
});

test('a folder that was begun with other rewards is continued with a warning that names them', async () => {
  const directory = join(folder, 'rewards');
  await using service = await startFakeService({ policy: digits });
  const few = { scenarios: guessingScenarios.slice(0, 2), directory };
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  await evaluateGuessing(service.baseUrl, few);
  const first = await evaluateGuessing(service.baseUrl, few);
  expect(warnings).toEqual([]);
  const { definition } = guessing;
  const { digit = { weight: 1, code: '' }, ...others } = definition.rewards;
  const changed = { ...definition, rewards: { ...others, digit: { ...digit, code: 'another' } } };
  const second = await evaluateGuessing(service.baseUrl, {
    ...few,
    environment: { ...guessing, definition: changed },
  });
  expect(second.reward).toEqual(first.reward);
  await expect.poll(() => warnings).toHaveLength(1);
  expect(warnings[0]?.message).toContain('begun with other rewards: reward "digit" has another function.');
});

test('groups that end at the same moment are stored in their order, each by the time its append resolves', async () => {
  const directory = join(folder, 'together');
  const header = { environment: 'a', policy: 'a/b/c:step1', seed: 1, rolloutsPerScenario: 1, temperature: 0 };
  const rest = { sampling: {}, groupStrategy: null, scenarios: 20, scenarioKeys: 'keys', rewards: {} };
  const opened = await EvaluationDirectory.open(directory, { ...header, ...rest });
  const indices = Array.from({ length: 20 }, (_, index) => index);
  const stored = await Promise.all(
    indices.map(async (index) => {
      await opened.append(
        new RolloutGroup({ index, scenario: { index }, rollouts: [], droppedBecause: null }),
      );
      return (await keptGroups(directory)).includes(index);
    }),
  );
  expect(stored).toEqual(indices.map(() => true));
  expect(await keptGroups(directory)).toEqual(indices);
});
