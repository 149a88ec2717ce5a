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
    expect(screen.lines.join('\n')).toContain('2 of 4 steps');
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

  it('warns once if it fails, and the run continues', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    view.listen(runStarted(4));
    // As JSON without a check may give it.
    view.listen(Object.assign(stepReport(0, 4), { reward: null }));
    vi.advanceTimersByTime(1000);
    view.close();
    expect(warn).toHaveBeenCalledOnce();
    expect(warn.mock.calls[0]?.[0]).toMatch(/^The live view failed; the run continues\. TypeError/);
    warn.mockRestore();
  });

  it('follows a terminal that becomes narrower', () => {
    view.listen(runStarted(4));
    view.listen(stepReport(0, 4));
    vi.advanceTimersByTime(100);
    screen.resize(40);
    for (const line of screen.lines) expect(line.length).toBeLessThan(40);
  });

  it('shows notes below, and writes nothing after its close', () => {
    view.listen(runStarted(4));
    view.note('Stopping.');
    view.note(`Either way ${'it goes on '.repeat(10)}with --resume.`);
    expect(screen.lines).toContain('Stopping.');
    expect(screen.lines.join(' ')).toMatch(/Either way .* with --resume\./);
    view.close();
    const writes = screen.writes.length;
    vi.advanceTimersByTime(1000);
    view.close();
    expect(screen.writes.length).toBe(writes);
  });

  it('leaves nothing of a run that was refused at its start', () => {
    const other = new Screen(80, 24);
    const refused = createLiveView(other, { title: 'training in a shop' });
    vi.advanceTimersByTime(100);
    expect(other.lines[0]).toMatch(/^martingale {2}training in a shop +0\.1 s$/);
    refused.close();
    expect(other.lines).toEqual(['']);
  });

  it('never hides the cursor, so that a killed process leaves a usable terminal', () => {
    view.listen(runStarted(4));
    vi.advanceTimersByTime(100);
    expect(screen.cursorVisible).toBe(true);
  });
});

describe('what the program writes beside a live view', () => {
  let screen: Screen;
  let view: ProgressView;
  const write = (text: string) => screen.write(text);
  const viewAt = () => screen.lines.findIndex((line) => line.startsWith('martingale'));

  beforeEach(() => {
    vi.useFakeTimers();
    screen = new Screen(80, 24);
    view = createLiveView(screen);
    view.listen(runStarted(4));
    vi.advanceTimersByTime(100);
  });

  afterEach(() => {
    view.close();
    vi.useRealTimers();
  });

  it('appears above it, complete and in order', () => {
    write('one\n');
    vi.advanceTimersByTime(1000);
    write('two\nthree\n');
    expect(screen.lines.slice(0, 4)).toEqual(['one', 'two', 'three', expect.stringMatching(/^martingale/)]);
    expect(screen.lines.filter((line) => line.startsWith('martingale'))).toHaveLength(1);
  });

  it('may be written in parts and as bytes', () => {
    write('half');
    vi.advanceTimersByTime(1000);
    expect(viewAt()).toBe(1);
    screen.write(new TextEncoder().encode(' of a line'));
    vi.advanceTimersByTime(1000);
    write(', the end\n');
    vi.advanceTimersByTime(1000);
    expect(screen.lines.slice(0, 2)).toEqual([
      'half of a line, the end',
      expect.stringMatching(/^martingale/),
    ]);
  });

  it('may be many lines at once; the view is repainted after them', () => {
    const before = screen.writes.join('').length;
    for (let line = 0; line < 1000; line++) write(`line ${line}\n`);
    // About the lines only, and not the view with each of them.
    expect(screen.writes.join('').length - before).toBeLessThan(20_000);
    vi.advanceTimersByTime(100);
    expect(screen.lines.slice(0, 1001)).toEqual([
      ...Array.from({ length: 1000 }, (_, line) => `line ${line}`),
      expect.stringMatching(/^martingale/),
    ]);
  });

  it('is unchanged after the view is closed, and in order before', () => {
    write('before\n');
    view.close();
    const end = screen.lines.length;
    write('after\n');
    expect(screen.lines[0]).toBe('before');
    expect(screen.lines.slice(end - 1)).toEqual(['after', '']);
    expect(screen.writes.at(-1)).toBe('after\n');
  });
});

describe('several live views on one terminal', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const open = (screen: Screen, model: string) => {
    const view = createLiveView(screen);
    view.listen({ ...runStarted(4), model });
    return view;
  };
  const heads = (screen: Screen) => screen.lines.filter((line) => line.startsWith('martingale'));

  it('are stacked, and one that ends stays above', () => {
    const screen = new Screen(80, 40);
    const [one, other] = [open(screen, 'local/desk/one'), open(screen, 'local/desk/other')];
    vi.advanceTimersByTime(100);
    expect(heads(screen).map((line) => line.slice(0, 27).trimEnd())).toEqual([
      'martingale  local/desk/one',
      'martingale  local/desk/othe',
    ]);
    other.listen({ type: 'run_ended', reason: 'stopped', seconds: 1, runDirectory: 'runs/desk-1' });
    other.close();
    one.listen(stepReport(0, 4));
    vi.advanceTimersByTime(100);
    expect(heads(screen).map((line) => line.slice(12, 27).trimEnd())).toEqual([
      'local/desk/othe',
      'local/desk/one',
    ]);
    one.close();
    expect(heads(screen)).toHaveLength(2);
  });

  it('fit the terminal together: each shows its most important lines', () => {
    const screen = new Screen(80, 13);
    const views = ['one', 'two', 'three'].map((name) => open(screen, `local/desk/${name}`));
    for (const view of views) {
      view.listen(stepReport(0, 4));
      view.listen({ type: 'rollouts', step: 1, done: 24, total: 96 });
    }
    vi.advanceTimersByTime(100);
    expect(screen.lines.filter((line) => line !== '')).toHaveLength(9);
    expect(screen.lines.join('\n')).toMatch(
      /martingale {2}local\/desk\/three.*\n.*rollouts.*24\/96.*\n.*reward.*0\.250/,
    );
    for (const view of views) view.close();
  });
});
