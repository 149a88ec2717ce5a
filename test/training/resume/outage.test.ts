import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readJsonLines } from '../../support/files.ts';
import { startRuns } from './run-child.ts';

type Runs = Awaited<ReturnType<typeof startRuns>>;

let runs: Runs;
beforeAll(async () => {
  runs = await startRuns();
});
afterAll(() => runs?.close());

describe.each([
  { mode: 'synchronous', settings: {}, afterSteps: 1, options: {} },
  // The next steps are in flight.
  {
    mode: 'pipelined',
    settings: { maxStaleness: 2, concurrency: 4 },
    afterSteps: 0,
    options: { tags: ['long'] },
  },
])('a $mode run all of whose rollouts failed', ({ mode, settings, afterSteps, options }) => {
  const of = [0, 1, 2, 3, 4];
  test(
    'says what to do, and goes on to the end of one that never was away, killed meanwhile too',
    options,
    async () => {
      const whole = await runs.run(`${mode}-whole`, settings);
      const name = `${mode}-away`;
      const away = await runs.run(name, { ...settings, outage: { afterSteps, of } });
      expect(away.errors).toMatch(
        /No rollout of step \d completed: \d+ x Error \(database is away at [^)]+child\.ts:\d+:\d+\)/,
      );
      expect(away.errors).toContain('continue with `resume`; these rollouts run again');
      const again = await runs.run(name, { ...settings, resume: true, outage: { afterSteps: 0, of } });
      expect(again.errors).toContain('database is away');
      // Some groups have run again, others have not.
      const killed = await runs.run(name, { ...settings, resume: true, kill: { event: 4 } });
      expect([killed.killed, killed.errors]).toEqual([true, '']);
      const ended = await runs.run(name, { ...settings, resume: true });
      expect([ended.errors, ended.result]).toEqual(['', whole.result]);
      expect(await runs.record(name)).toEqual(await runs.record(`${mode}-whole`));
      expect(await runs.trainings(name)).toBe(4);
      expect((await readdir(join(runs.path(name), 'trajectories'))).join()).not.toContain('journal');
    },
  );
});

test('a step that may have been logged keeps its failed group, and is logged and trained unchanged', async () => {
  const outage = { afterSteps: 0, of: [0, 1] };
  const killed = await runs.run('logged', { outage, kill: { call: 'log', at: 1, when: 'after' } });
  expect(killed.killed).toBe(true);
  const groups = () => readJsonLines(join(runs.path('logged'), 'trajectories', 'step-0000.jsonl'));
  const before = await groups();
  expect(before.map(({ trajectories }) => trajectories.length).sort()).toEqual([0, 3]);
  const ended = await runs.run('logged', { steps: 4, resume: true });
  expect([ended.errors, ended.result?.reason]).toEqual(['', 'finished']);
  expect((await groups()).map(({ trajectories }) => trajectories.length)).toEqual(
    before.map(({ trajectories }) => trajectories.length),
  );
});

describe('a validation with failed rollouts', { tags: ['long'] }, () => {
  const outage = { afterSteps: 0, of: [8] };
  const evaluated = async (name: string) =>
    (await readJsonLines(join(runs.path(name), 'events.jsonl'))).filter(({ type }) => type === 'evaluated');

  test('runs them again if the run ended before the validation counted', async () => {
    const killed = await runs.run('before-log', { outage, kill: { call: 'log', at: 0, when: 'before' } });
    expect(killed.killed).toBe(true);
    const ended = await runs.run('before-log', { resume: true });
    expect(ended.errors).toBe('');
    expect((await evaluated('before-log'))[0]).toMatchObject({ name: 'before', scenarios: 2, scored: 2 });
    const whole = await runs.run('validated-whole');
    expect(ended.result).toEqual(whole.result);
    expect(await runs.record('before-log')).toEqual(await runs.record('validated-whole'));
  });

  test('also if the service had logged it, or none had completed', async () => {
    await runs.run('after-log', { outage, kill: { call: 'log', at: 0, when: 'after' } });
    expect((await runs.run('after-log', { resume: true })).errors).toBe('');
    expect((await evaluated('after-log'))[0]).toMatchObject({ scored: 2, counts: { completed: 2 } });
    const none = await runs.run('none', { outage: { afterSteps: 0 } });
    expect(none.errors).toContain('No rollout of the validation "before" completed');
    expect((await runs.run('none', { resume: true })).result).toMatchObject({ reason: 'finished' });
  });

  test('that counts raises an alarm and does not run again', async () => {
    await runs.run('counted', { outage, steps: 1 });
    const [before] = await evaluated('counted');
    expect(before).toMatchObject({
      scenarios: 2,
      scored: 1,
      counts: { dispatched: 2, completed: 1, failed: 1 },
    });
    const events = await readJsonLines(join(runs.path('counted'), 'events.jsonl'));
    const alarm = events[events.indexOf(events.find(({ type }) => type === 'evaluated')) + 1];
    expect(alarm).toMatchObject({ type: 'alarm', kind: 'failures', step: 0 });
    expect(alarm.message).toBe(
      '50% of the rollouts of the validation "before" failed, most often with Error (1): 1 of 2 scenarios have a score.',
    );
    const asked = runs.engine.requests.length;
    const { result } = await runs.run('counted', { steps: 1, resume: true });
    expect(result).toMatchObject({ reason: 'finished', finalStep: 1 });
    expect(runs.engine.requests).toHaveLength(asked);
  });
});
