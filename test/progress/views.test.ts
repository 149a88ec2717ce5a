import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/progress/index.ts';
import { liveLines } from '../../src/progress/live-lines.ts';
import { createJsonView } from '../../src/progress/open-progress.ts';
import { createPlainView } from '../../src/progress/plain.ts';
import { advance, newRun } from '../../src/progress/run-progress.ts';
import { paint } from '../../src/progress/text.ts';
import { alarm, evaluated, phase, runStarted, stepReport } from './events.ts';

function collect() {
  const written: string[] = [];
  return {
    write: (text: string) => written.push(text),
    lines: () => written.join('').split('\n').slice(0, -1),
  };
}

const wholeRun = (steps: number): RunEvent[] => [
  phase(0, 250),
  phase(100, 250),
  phase(250, 250),
  evaluated('before', 0.33),
  runStarted(steps),
  ...Array.from({ length: steps }, (_, step): RunEvent[] => [
    { type: 'rollouts', step, done: 96, total: 96 },
    { type: 'job', step, status: 'ended', gradientSteps: 1, total: 1 },
    stepReport(step, steps),
  ]).flat(),
  { type: 'run_ended', reason: 'finished', seconds: 65, runDirectory: 'runs/desk-1' },
];

describe('plain view', () => {
  const show = (events: RunEvent[]) => {
    const [output, _notes] = [collect(), collect()];
    let ms = 0;
    const view = createPlainView(output, () => ms++ * 1000);
    for (const event of events) view.listen(event);
    view.close();
    return output.lines();
  };

  it('shows the start and end of a phase, and about every tenth step', () => {
    const lines = show(wholeRun(42));
    expect(lines.slice(0, 4)).toEqual([
      'warm start …',
      'warm start: 250 · loss 0.432 · 2.0 s',
      'before: reward 0.330 · success 16% on 128 scenarios (local/desk/clerk:step1)',
      'training local/desk/clerk: 42 steps of 12 groups × 8, in runs/desk-1',
    ]);
    expect(lines.flatMap((line) => /^ ?(\d+) of 42 steps {2}/.exec(line)?.[1] ?? [])).toEqual([
      ...['1', '10', '20', '30', '40', '42'],
    ]);
    expect(lines.at(-1)).toBe('finished · 1:05 · record in runs/desk-1');
  });

  it('shows why rollouts failed: message, then location', () => {
    const kinds = [
      { code: 'reward_failed', message: 'oh\u001b[2J', at: `${process.cwd()}/src/agent.ts:12:5`, count: 2 },
      { code: 'thrown', message: 'x'.repeat(400), count: 1 },
    ];
    const lines = show([runStarted(2), { type: 'failures', name: 'step-0000', step: 0, kinds }]);
    expect(lines.slice(1)).toEqual([
      '! 2 rollouts of step 0 failed: oh [reward_failed] at src/agent.ts:12:5',
      `! 1 rollout of step 0 failed: ${'x'.repeat(300)}… [thrown]`,
    ]);
  });

  it('separates failures of a validation and a step with the same name', () => {
    const kinds = [{ code: 'thrown', message: 'oh', count: 1 }];
    const lines = show([runStarted(2), { type: 'failures', name: 'step-1000', kinds }]);
    expect(lines.slice(1)).toEqual(['! 1 rollout of the validation "step-1000" failed: oh [thrown]']);
  });

  it('names the cause of an alarm if it has one', () => {
    const causes = ['replies_alike', 'unknown', 'solved'] as const;
    const lines = show([runStarted(5), ...causes.map((cause) => alarm(4, { cause }))]);
    const titles = lines.filter((line) => line.startsWith('!')).map((line) => line.split(': 2%')[0]);
    expect(titles).toEqual([
      '! step 4, no signal: replies alike',
      '! step 4, no signal',
      '! step 4, all scenarios solved',
    ]);
  });

  it('says solved scenarios as news, not as a missing signal', () => {
    const [, line] = show([
      runStarted(5),
      alarm(4, { cause: 'solved', message: 'The scenarios are solved.' }),
    ]);
    expect(line).toBe('! step 4, all scenarios solved: The scenarios are solved.');
  });

  it('shows an alarm with what to look at, even between omitted steps', () => {
    const events = wholeRun(42);
    const lines = show([...events.slice(0, -1), alarm(14), ...events.slice(-1)]);
    expect(lines.slice(-3, -1)).toEqual([
      '! step 14, no signal: 2% of the groups had rewards that differ.',
      '  Look at: A few trajectories by eye.',
    ]);
  });

  it('shows earlier steps of a resumed run, and why a run ended early', () => {
    const { type: _, ...done } = stepReport(0, 42);
    const lines = show([
      { ...runStarted(42), finishedSteps: 1, finishedReports: [done] },
      stepReport(1, 42, { staleness: { mean: 1.5, max: 2 } }),
      { type: 'run_ended', reason: 'early_stop', because: 'no better', seconds: 5, runDirectory: 'runs/x' },
    ]);
    expect(lines[1]).toBe('resumed after 1 step');
    expect(lines[2]).toMatch(/^ 2 of 42 steps .*stale 1\.5/);
    expect(lines[3]).toBe('ended early: no better · 5.0 s · record in runs/x');
    expect(show(wholeRun(3)).join()).not.toContain('stale');
  });

  it('shows every step of a short run', () => {
    expect(show(wholeRun(3)).filter((line) => /^\d of 3 steps/.test(line))).toHaveLength(3);
  });

  it('shows how far a stopped phase came', () => {
    const stopped: RunEvent = { type: 'run_ended', reason: 'stopped', seconds: 1, runDirectory: 'runs/x' };
    expect(show([phase(0, null), stopped])[1]).toBe('warm start: stopped at 0 · loss 0.432 · 1.0 s');
    expect(show([phase(50, 250), stopped])[1]).toMatch(/^warm start: stopped at 50 of 250 · /);
    expect(show([phase(250, 250), stopped])[0]).toBe('warm start: 250 · loss 0.432 · 0.0 s');
  });

  it('shows the end of a phase once, even if it is reported more often', () => {
    expect(show([phase(100, 250), phase(250, 250), phase(250, 250)])).toHaveLength(2);
  });

  it('shows only the result of an evaluation', () => {
    const lines = show([phase(0, 128, 'evaluation before'), phase(128, 128, 'evaluation before')]);
    expect(lines).toEqual(['evaluation before …']);
  });

  it('ends a phase of unknown length when something else begins', () => {
    expect(show([phase(10, null), runStarted(1)])[1]).toBe('warm start: 10 · loss 0.432 · 1.0 s');
  });

  it('names the step from which a new run of a trained model continues', () => {
    const started = { ...runStarted(2), model: 'local/desk/clerk:step12', fromStep: 12 };
    const line = 'goes on from step 12 of local/desk/clerk, which was trained before';
    expect(show([started])).toContain(line);
    const resumed = { ...started, finishedSteps: 1, finishedReports: [] };
    expect(show([resumed]).join()).not.toContain('goes on from');
    expect(show([runStarted(2)]).join()).not.toContain('goes on from');
    const changedVersions = [{ of: 'node' as const, was: '22.19.0', is: '24.1.0' }];
    expect(show([{ ...resumed, changedVersions }])).toContain(
      'resumed with Node 24.1.0; it began with 22.19.0',
    );
    const live = (event: RunEvent) =>
      liveLines(advance(newRun(0), event, 0), { columns: 100, nowMs: 0 }).map((line) => paint(line, false));
    expect(live(started)).toContain(line);
    expect(live(resumed)).not.toContain(line);
  });

  it('moves no cursor and has no colours', () => {
    expect(show(wholeRun(12)).join('')).not.toContain('\u001b');
  });
});

describe('JSON view', () => {
  it('writes one object a line, without conversations or movements of a bar', () => {
    const [output, notes] = [collect(), collect()];
    const view = createJsonView(output, notes);
    for (const event of wholeRun(2)) view.listen(event);
    const events = output.lines().map((line) => JSON.parse(line));
    expect(events.map((event) => event.type)).toEqual([
      'phase',
      'phase',
      'evaluated',
      'run_started',
      'step',
      'step',
      'run_ended',
    ]);
    expect(events[2]).not.toHaveProperty('examples');
    expect(events[4]).toMatchObject({ step: 0, reward: 0.5, dispatched: 96, completed: 96, failed: 0 });
  });

  it('writes an alarm whole', () => {
    const [output, notes] = [collect(), collect()];
    createJsonView(output, notes).listen(alarm(3));
    expect(output.lines().map((line) => JSON.parse(line))).toEqual([alarm(3)]);
  });
});
