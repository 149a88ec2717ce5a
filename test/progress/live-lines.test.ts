import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/progress/index.ts';
import { liveLines } from '../../src/progress/live-lines.ts';
import { bar, sparkline } from '../../src/progress/live-parts.ts';
import { advance, newRun, timeLeftMs } from '../../src/progress/run-progress.ts';
import { displayWidth, paint } from '../../src/progress/text.ts';
import { alarm, evaluated, phase, runStarted, stepReport } from './events.ts';

const fold = (...events: RunEvent[]) =>
  events.reduce((progress, event, index) => advance(progress, event, 1000 * (index + 1)), newRun(0));

const draw = (columns: number, ...events: RunEvent[]) =>
  liveLines(fold(...events), { columns, nowMs: 1000 * (events.length + 1) }).map((line) =>
    paint(line, false),
  );

describe('sparkline', () => {
  it('draws rewards from 0 to 1', () => {
    expect(sparkline([0, 0.5, 1], 10)).toBe('▁▅█');
  });

  it('keeps the shape of a long series in few cells', () => {
    const values = Array.from({ length: 1000 }, (_, index) => index / 999);
    expect(sparkline(values, 8)).toBe('▁▂▃▄▅▆▇█');
  });

  it('extends its scale for values outside 0 to 1', () => {
    expect(sparkline([-3, 5], 4)).toBe('▁█');
    expect(sparkline([], 4)).toBe('');
  });
});

describe('bar', () => {
  it('fills in proportion, and is empty if the total is unknown', () => {
    expect(bar(1, 4, 8)).toEqual({ filled: '██', rest: '░░░░░░' });
    expect(bar(9, 4, 4)).toEqual({ filled: '████', rest: '' });
    expect(bar(3, null, 4)).toEqual({ filled: '', rest: '░░░░' });
  });
});

describe('live view', () => {
  const events = [
    phase(250, 250),
    evaluated('before', 0.33),
    runStarted(4),
    stepReport(0, 4),
    stepReport(1, 4),
    { type: 'rollouts', step: 2, done: 24, total: 96 },
    { type: 'job', step: 2, status: 'running', gradientSteps: 1, total: 2 },
  ] as const satisfies RunEvent[];

  it('does not tick off a stopped phase', () => {
    const stopped: RunEvent = { type: 'run_ended', reason: 'stopped', seconds: 1, runDirectory: 'runs/x' };
    const lineOf = (...told: RunEvent[]) => draw(80, ...told).find((line) => line.includes('warm start'));
    expect(lineOf(runStarted(4), phase(0, null), stopped)).toMatch(/^– warm start +stopped at 0 · /);
    expect(lineOf(runStarted(4), phase(50, 250), stopped)).toMatch(/^– warm start +stopped at 50\/250 · /);
    expect(lineOf(runStarted(4), phase(250, 250), stopped)).toMatch(/^✓ warm start +250/);
  });

  it('shows the newest alarm in full below the curves, and a line for earlier ones', () => {
    const long = 'Entropy is 0.01 nats and was 0.5 at the start; 60% succeed.';
    const lines = draw(40, ...events, alarm(0), alarm(0), alarm(1), alarm(1, { message: long }));
    const first = lines.findIndex((line) => line.startsWith('!'));
    expect(lines.slice(first)).toEqual([
      '! step 0, no signal  2% of the groups h…',
      '! step 1, no signal  2% of the groups h…',
      '! step 1, no signal',
      '  Entropy is 0.01 nats and was 0.5 at',
      '  the start; 60% succeed.',
      '  A few trajectories by eye.',
    ]);
    expect(lines.slice(0, first - 1)).toEqual(draw(40, ...events));
  });

  it('shows a running warm start, with a bar if it fits', () => {
    expect(draw(80, phase(25, 250)).at(-1)).toMatch(
      /^› warm start +25\/250 · loss 0\.432 {3}█+░{8,} +1\.0 s, 9\.0 s left$/,
    );
    expect(draw(50, phase(25, 250)).at(-1)).toMatch(/^› warm start +25\/250 · loss 0\.432 +1\.0 s$/);
  });

  it('shows earlier phases, the curves, the bars and the time left', () => {
    const text = draw(80, ...events).join('\n');
    expect(text).toMatch(/✓ warm start +250 · loss 0\.432/);
    expect(text).toMatch(/✓ before +reward 0\.330 · success 16% +128 scenarios/);
    expect(text).toContain('3 of 4 steps');
    expect(text).toMatch(/reward +▃▅ +0\.500/);
    expect(text).toMatch(/success +▁▃ +25%/);
    expect(text).toMatch(/entropy +0\.250 nats +sampling 41,234 tokens\/s/);
    expect(text).toMatch(/rollouts +█+░+ 24\/96/);
    expect(text).toMatch(/training +█+░+ 1\/2 gradient steps/);
    expect(text).toMatch(/run +█+░+ 1\.0 s left/);
  });

  it('shows no step and no bars before the first step and after the last', () => {
    const before = draw(80, phase(250, 250), runStarted(1));
    expect(before[0]).toContain('0 of 1 step');
    expect(before.at(-1)).toMatch(/^› before the first step +1\.0 s$/);
    expect(before.join('\n')).not.toContain('░');

    const after = draw(80, runStarted(1), stepReport(0, 1));
    expect(after[0]).toContain('1 of 1 step');
    expect(after.at(-1)).toMatch(/^› after the last step +1\.0 s$/);
    expect(after.join('\n')).not.toContain('left');
  });

  it('shows the progress of an evaluation, then its result on the same line', () => {
    const begun = [runStarted(1), phase(64, 128, 'evaluation before')];
    expect(draw(80, ...begun).at(-1)).toMatch(/^› evaluation before +64\/128 /);
    const ended = [...begun, phase(128, 128, 'evaluation before'), evaluated('before', 0.33)];
    expect(draw(80, ...ended).join('\n')).not.toContain('evaluation');
    expect(draw(80, ...ended).join('\n')).toContain('✓ before');
  });

  it('fits every terminal', () => {
    for (const columns of [1, 12, 40, 80, 200])
      for (const line of draw(columns, ...events)) expect(displayWidth(line)).toBeLessThanOrEqual(columns);
  });

  it('shows counts whole in a narrow terminal', () => {
    expect(draw(24, phase(1250, 2500, 'evaluation before')).at(-1)).toBe('› evaluati… 1,250/2,500…');
    const many = [
      runStarted(4),
      evaluated('before', 0.33),
      { type: 'rollouts', step: 0, done: 1234, total: 4096 },
      { type: 'job', step: 0, status: 'running', gradientSteps: 11, total: 12 },
    ] as const satisfies RunEvent[];
    expect(draw(24, ...many)).toEqual(
      expect.arrayContaining([
        '✓ before   reward 0.330…',
        '  rollouts  █░ 1234/4096',
        '  training   11/12 grad…',
      ]),
    );
  });

  it('shows failed rollouts', () => {
    const failed = stepReport(0, 4, { completed: 93, failed: 2, cancelled: 1 });
    expect(draw(90, runStarted(4), failed).join('\n')).toContain('3 rollouts failed');
  });

  it('shows later phases below the loop, without bars', () => {
    const lines = draw(
      80,
      runStarted(1),
      stepReport(0, 1),
      { type: 'run_ended', reason: 'finished', seconds: 12, runDirectory: 'runs/desk-1' },
      evaluated('after', 0.99),
    );
    expect(lines.at(-1)).toMatch(/✓ after +reward 0\.990/);
    expect(lines.join('\n')).not.toContain('░');
    expect(lines[0]).toContain('3.0 s');
  });
});

describe('time left', () => {
  it('follows the pace of the last twenty steps', () => {
    const slowStart = stepReport(0, 100, { seconds: 60 });
    const later = Array.from({ length: 24 }, (_, index) => stepReport(index + 1, 100, { seconds: 0.5 }));
    expect(timeLeftMs(fold(runStarted(100), slowStart, ...later))).toBe(75 * 500);
    expect(timeLeftMs(fold(runStarted(100)))).toBeNull();
  });
});
