import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLiveView } from '../../src/progress/live.ts';
import type { ProgressView } from '../../src/progress/view.ts';
import { phase, runStarted, stepReport } from './events.ts';
import { Screen } from './screen.ts';

describe('live view on a terminal', () => {
  let screen: Screen;
  let view: ProgressView;

  beforeEach(() => {
    vi.useFakeTimers();
    screen = new Screen(80, 24);
    view = createLiveView(screen);
  });

  afterEach(() => {
    view.close();
    vi.useRealTimers();
  });

  it('repaints in place', () => {
    view.listen(phase(10, 250));
    vi.advanceTimersByTime(100);
    view.listen(phase(250, 250));
    view.listen(runStarted(4));
    view.listen(stepReport(0, 4));
    vi.advanceTimersByTime(100);
    expect(screen.lines.filter((line) => line.includes('warm start'))).toHaveLength(1);
    expect(screen.lines.filter((line) => line.startsWith('martingale'))).toHaveLength(1);
    expect(screen.lines.join('\n')).toContain('step 2 of 4');
  });

  it('paints at most ten times a second, and only what is new', () => {
    view.listen(runStarted(1000));
    for (let step = 0; step < 1000; step++) {
      view.listen(stepReport(step, 1000));
      vi.advanceTimersByTime(1);
    }
    expect(screen.writes.length).toBeLessThanOrEqual(11);
    const before = screen.writes.length;
    view.listen({ type: 'run_ended', reason: 'finished', seconds: 1, runDirectory: 'runs/desk-1' });
    vi.advanceTimersByTime(5000);
    expect(screen.writes.length).toBe(before + 1);
  });

  it('follows a terminal that becomes narrower', () => {
    view.listen(runStarted(4));
    view.listen(stepReport(0, 4));
    vi.advanceTimersByTime(100);
    screen.resize(40);
    for (const line of screen.lines) expect(line.length).toBeLessThan(40);
  });

  it('shows notes below, and gives the cursor back', () => {
    view.listen(runStarted(4));
    view.note('Stopping.');
    expect(screen.lines).toContain('Stopping.');
    expect(screen.cursorVisible).toBe(false);
    view.close();
    expect(screen.cursorVisible).toBe(true);
    const writes = screen.writes.length;
    vi.advanceTimersByTime(1000);
    expect(screen.writes.length).toBe(writes);
  });
});
