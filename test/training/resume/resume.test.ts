import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Kill, startRuns } from './run-child.ts';

type Runs = Awaited<ReturnType<typeof startRuns>>;

let runs: Runs;
beforeAll(async () => {
  runs = await startRuns();
});
afterAll(() => runs?.close());

/** For each kind its first event, or the one in the middle, by turns: by number. */
function pointsOf(events: readonly string[]): number[] {
  return [...new Set(events)].map((kind, index) => {
    const numbers = [...events.keys()].filter((number) => events[number] === kind);
    return numbers[index % 2 === 0 ? 0 : Math.floor(numbers.length / 2)] ?? 0;
  });
}

describe.each([
  { mode: 'synchronous', settings: {}, options: {} },
  { mode: 'pipelined', settings: { maxStaleness: 2, concurrency: 4 }, options: { tags: ['long'] } },
])('a $mode run that is killed', ({ mode, settings, options }) => {
  let whole: Awaited<ReturnType<Runs['record']>>;
  let events: string[];
  let result: object;

  beforeAll(async () => {
    const ended = await runs.run(`${mode}-whole`, settings);
    expect(ended.errors).toBe('');
    ({ events, result } = ended);
    whole = await runs.record(`${mode}-whole`);
    expect(whole.metrics).toHaveLength(4);
  });

  async function comesToTheSame(name: string, kills: readonly Kill[], afterKill = async () => {}) {
    for (const [index, kill] of kills.entries()) {
      const killed = await runs.run(name, { ...settings, kill, ...(index > 0 && { resume: true }) });
      expect([name, killed.killed, killed.errors]).toEqual([name, true, '']);
      await afterKill();
    }
    const ended = await runs.run(name, { ...settings, resume: true });
    expect([name, ended.errors]).toEqual([name, '']);
    expect(ended.result).toEqual(result);
    expect(await runs.record(name)).toEqual(whole);
  }

  test('once in each phase ends in the same state', options, () =>
    comesToTheSame(`${mode}-phases`, [
      { call: 'list', at: 0, when: 'after' },
      { call: 'log', at: 1, when: 'after' },
      { call: 'create', at: 0, when: 'after' },
      { event: Math.floor(events.length / 3) },
    ]),
  );

  test('after an event of any kind ends in the same state', { tags: ['long'] }, async () => {
    const points = pointsOf(events);
    expect(points.length).toBeGreaterThan(4);
    for (const event of points) await comesToTheSame(`${mode}-event-${event}`, [{ event }]);
  });

  test.each([
    { call: 'create', at: 1, when: 'before' },
    { call: 'create', at: 1, when: 'after' },
    { call: 'log', at: 1, when: 'after' },
    { call: 'list', at: 2, when: 'before' },
    { call: 'list', at: 2, when: 'after' },
    { call: 'delete', at: 0, when: 'before' },
    { call: 'delete', at: 0, when: 'after' },
  ] as const)('$when `$call` of the service goes on to the same end', { tags: ['long'] }, async (kill) => {
    await comesToTheSame(`${mode}-${kill.call}-${kill.when}`, [kill]);
  });

  test('twice, or with torn last lines, ends in the same state', { tags: ['long'] }, async () => {
    const name = `${mode}-twice`;
    const middle = Math.floor(events.length / 2);
    await comesToTheSame(name, [{ event: middle }, { event: 4 }], () => runs.tear(name));
  });
});

test('a known job in flight is followed, and none trains twice', async () => {
  const folder = runs.path('followed');
  await runs.run('followed', { kill: { call: 'create', at: 1, when: 'after' } });
  const job = async () => JSON.parse(await readFile(join(folder, 'jobs', 'step-0001.json'), 'utf8'));
  const asked = await job();
  expect(asked).not.toHaveProperty('jobId');
  await runs.run('followed', { resume: true });
  expect(await job()).toMatchObject({ idempotencyKey: asked.idempotencyKey, outcome: { step: 2 } });
  expect(await runs.trainings('followed')).toBe(4);
  const read = async (file: string) => JSON.parse(await readFile(join(folder, file), 'utf8'));
  const [{ seconds }, state] = [await read('summary.json'), await read('state.json')];
  expect(seconds).toBeGreaterThan(0);
  expect(state.seconds).toBeCloseTo(seconds, 0);
});

test('a failed job is requested again with another key', { tags: ['long'] }, async () => {
  const folder = runs.path('failed');
  const read = async (file: string) => JSON.parse(await readFile(join(folder, file), 'utf8'));
  runs.engine.failTraining = new Error('out of memory');
  const { errors } = await runs.run('failed');
  runs.engine.failTraining = null;
  expect(errors).toContain('out of memory');
  const failed = await read('jobs/step-0000.json');
  expect(await read('summary.json')).toMatchObject({ reason: 'failed' });
  const { result } = await runs.run('failed', { resume: true });
  expect(result).toMatchObject({ reason: 'finished', finalStep: 4 });
  expect((await read('jobs/step-0000.json')).idempotencyKey).not.toBe(failed.idempotencyKey);
  expect(await runs.record('failed')).toEqual(await runs.record('synchronous-whole'));
});

test('a run does not resume if something else has trained its model', {
  tags: ['long'],
}, async () => {
  await runs.run('shared', { steps: 1 });
  const summary = await readFile(join(runs.path('shared'), 'summary.json'), 'utf8');
  await runs.run('shared', { steps: 1, runDirectory: runs.path('shared-other') });
  const { errors } = await runs.run('shared', { steps: 2, resume: true });
  expect(errors).toContain('something else has trained it since');
  expect(await readFile(join(runs.path('shared'), 'summary.json'), 'utf8')).toBe(summary);
});

test('a run whose model is gone from the service is refused and creates no new model', {
  tags: ['long'],
}, async () => {
  await runs.run('lost', { steps: 1 });
  const { modelId } = JSON.parse(await readFile(join(runs.path('lost'), 'config.json'), 'utf8'));
  await runs.models.delete(modelId);
  for (const resume of [true, 'auto']) {
    const { errors } = await runs.run('lost', { steps: 2, resume });
    expect(errors).toContain(`local/resume/lost (${modelId}), which the service no longer has`);
    expect(errors).toContain('deleted');
    expect(errors).toContain('data folder');
    expect(errors).not.toContain('started with other options');
  }
  expect((await runs.models.list({ limit: 100 })).data.filter(({ name }) => name === 'lost')).toEqual([]);
});

test('a finished run continues with more steps, with the same result as a run that began with them', {
  tags: ['long'],
}, async () => {
  await runs.run('grown', { steps: 2 });
  const { result } = await runs.run('grown', { steps: 4, resume: true });
  expect(result).toMatchObject({ reason: 'finished', finalStep: 4 });
  const { metrics } = await runs.record('synchronous-whole');
  const withoutSteps = (reports: object[]) => reports.map((report) => ({ ...report, steps: 4 }));
  expect(withoutSteps((await runs.record('grown')).metrics)).toEqual(metrics);
});

test('an uncaught error shows the line of the program that called train(), and none of martingale', async () => {
  const { errors } = await runs.run('uncaught', { groupsPerStep: 0 });
  expect(errors).toMatch(/^file:\/\/\S+resume\/child\.ts:\d+\n.*await train\(\{\n/);
  expect(errors).toMatch(/\nOptionError: `groupsPerStep` is 0/);
  expect(errors).not.toMatch(/Symbol\(|src\/training\//);
});

test('a run does not resume with other options, without a directory, or with a missing one', async () => {
  const name = 'synchronous-whole';
  const { errors } = await runs.run(name, { resume: true, seed: 4, groupsPerStep: 3 });
  expect(errors).toContain('`groupsPerStep` was 2 and is 3; `seed` was 3 and is 4');
  // A run with another model is refused before that model is created.
  const renamed = await runs.run('renamed', { resume: true, runDirectory: runs.path(name) });
  expect(renamed.errors).toContain(`The run trains local/resume/${name}, and \`model\` is resume/renamed.`);
  expect((await runs.models.list({ limit: 100 })).data.map(({ name }) => name)).not.toContain('renamed');
  expect(renamed.errors).not.toMatch(/Symbol\(|src\/training\//);
  expect((await runs.run('nowhere', { resume: true })).errors).toContain('There is no run directory');
});

test('`resume: auto` starts a run and then continues it', { tags: ['long'] }, async () => {
  expect((await runs.run('anew', { steps: 1, resume: 'auto' })).result).toMatchObject({ finalStep: 1 });
  expect((await runs.run('anew', { steps: 2, resume: 'auto' })).result).toMatchObject({ finalStep: 2 });
});
