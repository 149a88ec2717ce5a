import { OptionError } from 'martingale';
import { describe, expect, it } from 'vitest';
import { openProgress, type ProgressOption } from '../../src/progress/index.ts';
import { phase, runStarted, stepReport } from './events.ts';
import { Screen } from './screen.ts';

/** A pipe that shows what was written to it. */
const pipe = () => new Screen(200, 100, { isTTY: false });

function open(option: ProgressOption | undefined) {
  const [terminal, output] = [pipe(), pipe()];
  const view = openProgress(option, { title: 'training in a shop', terminal, output });
  return { terminal, output, view };
}

describe('the view of a run whose output is a pipe', () => {
  it('is null for `progress` false', () => {
    expect(open(false).view).toBeNull();
  });

  it.each([
    [undefined, 'terminal'],
    [true, 'terminal'],
    ['plain', 'terminal'],
    ['json', 'output'],
  ] as const)('has lines for `progress` %s, on one stream only', (option, to) => {
    const { view, ...streams } = open(option);
    view?.listen(runStarted(1));
    view?.listen(stepReport(0, 1));
    view?.close();
    const written = (name: 'terminal' | 'output') => streams[name].lines.filter((line) => line !== '');
    expect(written(to)).toHaveLength(2);
    expect(written(to === 'output' ? 'terminal' : 'output')).toEqual([]);
  });

  it('names the run of each line if there are several', () => {
    const stream = pipe();
    const views = ['one', 'two'].map((name) => {
      const view = openProgress('plain', { terminal: stream });
      view?.listen({ ...runStarted(2), model: `local/desk/${name}:step0` });
      return view;
    });
    for (const view of views) view?.listen(stepReport(0, 2));
    views[0]?.close();
    views[1]?.listen(stepReport(1, 2));
    views[1]?.close();
    expect(stream.lines.map((line) => line.replace(/(\d of \d).*/, '$1')).slice(1)).toEqual([
      expect.stringMatching(/^\[local\/desk\/two\] training local\/desk\/two/),
      ...['[local/desk/one] 1 of 2', '[local/desk/two] 1 of 2', '2 of 2', ''],
    ]);
  });

  it('ends when its reader exits, and the run continues', () => {
    const { view, terminal } = open('plain');
    view?.listen(phase(1, 2));
    terminal.emit('error', new Error('EPIPE'));
    const written = terminal.writes.length;
    view?.listen(phase(2, 2));
    view?.close();
    expect(terminal.writes.length).toBe(written);
  });

  it('refuses another value', () => {
    const option: ProgressOption = JSON.parse('"loud"');
    expect(() => open(option)).toThrow(OptionError);
    expect(() => open(option)).toThrow('`progress` is "loud". Pass true, false, "plain" or "json".');
  });

  it('removes its listener, even if its reader has exited', async () => {
    for (const error of [null, new Error('EPIPE')]) {
      const { view, terminal } = open('plain');
      if (error) terminal.emit('error', error);
      view?.close();
      await new Promise((resolve) => setImmediate(resolve));
      expect(terminal.listenerCount('error')).toBe(0);
    }
  });
});
