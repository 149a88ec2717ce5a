import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Screen } from '../progress/screen.ts';
import { outcomeOf } from '../support/programs.ts';
import { startRuns } from './resume/run-child.ts';

const child = fileURLToPath(new URL('resume/child.ts', import.meta.url));
const evaluation = fileURLToPath(new URL('../faults/harness-kills/child.ts', import.meta.url));
/** Environment of a run at a terminal, outside CI. */
const attended = { ...process.env, CI: '', TERM: 'xterm' };

let runs: Awaited<ReturnType<typeof startRuns>>;
beforeAll(async () => {
  runs = await startRuns();
});
afterAll(() => runs?.close());

const settings = (name: string, more: object) =>
  JSON.stringify({ ...runs.service, name, runDirectory: runs.path(name), steps: 2, ...more });

/** Trains in its own process, with output to pipes. */
const pipe = (name: string, more: object) =>
  outcomeOf(spawn(process.execPath, [child, settings(name, more)], { env: attended }));

describe('a run whose output goes to pipes', () => {
  test('shows nothing by default', async () => {
    const { output, errors, code } = await pipe('silent', {});
    expect([errors, code]).toEqual(['', 0]);
    expect(output).toContain('run_ended\n{"reason":"finished"');
  });

  test('shows plain lines on standard error if requested', async () => {
    const { errors } = await pipe('plain', { progress: 'plain' });
    expect(errors).toMatch(/^training local\/resume\/\w+:step0: 2 steps of 2 groups × 3, in .*\n/);
    expect(errors).toMatch(/\n2 of 2 steps {2}reward 0\.\d{3} .*\nafter: reward .*\nfinished · [\d.]+ s\n$/s);
  });

  test('shows JSON lines on standard output if requested', async () => {
    const { output, errors } = await pipe('json', { progress: 'json' });
    const events = output.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []));
    expect(events.map(({ type }) => type).filter((type) => type === 'step')).toHaveLength(2);
    expect(errors).toBe('');
  });

  test('refuses an unknown view before anything starts', { tags: ['long'] }, async () => {
    const { errors, code } = await pipe('other', { progress: 'loud' });
    expect(errors).toContain('`progress` is "loud". Pass true, false, "plain" or "json".');
    expect(code).toBe(1);
    await expect(access(runs.path('other'))).rejects.toThrow('ENOENT');
  });

  test('continues if nobody reads its output', { tags: ['long'] }, async () => {
    const started = spawn(process.execPath, [child, settings('unread', { progress: 'plain' })], {
      ...{ env: attended, stdio: ['ignore', 'pipe', 'pipe'] },
    });
    started.stderr.destroy();
    const ended = once(started, 'exit');
    expect(await text(started.stdout)).toContain('{"reason":"finished"');
    expect(await ended).toEqual([0, null]);
  });
});

/** `script` runs a program in a terminal. Every Linux has it; its options differ elsewhere. */
const hasTerminals = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0;
if (!hasTerminals) console.warn('Skipped: there is no `script` that runs a program at a terminal.');

describe.runIf(hasTerminals)('a run at a terminal', () => {
  /** Trains in its own process at a terminal. Returns the final screen. */
  async function attend(name: string, more: object, env: NodeJS.ProcessEnv = {}, program = child) {
    const quoted = [process.execPath, program, settings(name, more)].map((part) => `'${part}'`).join(' ');
    const started = spawn('script', ['-qec', quoted, join(runs.path('.'), `${name}.typescript`)], {
      ...{ env: { ...attended, ...env }, stdio: ['ignore', 'pipe', 'inherit'] },
    });
    const screen = new Screen(80, 24);
    screen.write(await text(started.stdout));
    return screen;
  }

  test('shows a live view below the complete output of the program', async () => {
    const { lines, writes } = await attend('live', {});
    const events = ['run_started', 'evaluated', 'step', 'step', 'evaluated', 'run_ended'];
    const shown = lines.filter((line) => events.includes(line));
    expect(shown).toEqual(events);
    const from = lines.findIndex((line) => line.startsWith('martingale'));
    expect(from).toBeGreaterThan(lines.indexOf('run_ended'));
    const view = lines.slice(from).join('\n');
    expect(view).toMatch(/^martingale {2}local\/resume\/live .*2 of 2 steps/);
    expect(view).toMatch(/✓ before .*\n.*reward .*\n.*✓ after .*\n/s);
    expect(view.trimEnd().split('\n').at(-1)).toMatch(/^\{"reason":"finished"/);
    expect(writes.join('')).not.toContain('?25l');
  });

  test.each<[string, string, object, NodeJS.ProcessEnv]>([
    ['it is told not to', 'off', { progress: false }, {}],
    ['it is that of a CI', 'ci', {}, { CI: 'true' }],
    ['it cannot repaint', 'dumb', {}, { TERM: 'dumb' }],
  ])('shows nothing where %s', { tags: ['long'] }, async (_, name, more, env) => {
    const { lines } = await attend(name, more, env);
    expect(lines.join('\n')).toContain('run_ended\n{"reason":"finished"');
    expect(lines.join('\n')).not.toContain('martingale');
  });

  test('of an evaluation shows its model and its result', async () => {
    const asked = { task: 'evaluate', steps: undefined };
    // It may end before its first repaint, so only the final screen is checked.
    const { lines } = await attend('evaluation', asked, {}, evaluation);
    const text = lines.join('\n');
    expect(text).toMatch(/martingale {2}evaluating local\/resume\/evaluation:step0 in coin toss/);
    expect(text).toMatch(/✓ evaluation +reward 0\.\d{3} · success \d+% +5 scenarios/);
  });
});
