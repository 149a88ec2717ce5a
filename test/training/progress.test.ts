import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Screen } from '../progress/screen.ts';
import { fromSource, outcomeOf } from '../support/programs.ts';
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
const pipe = (folder: string, more: object, env: NodeJS.ProcessEnv = attended) =>
  outcomeOf(spawn(process.execPath, [...fromSource, child, settings(folder, more)], { env }));

/** Lines up to their first figure. */
const withoutFigures = (text: string) =>
  text.split('\n').map((line) => line.replace(/(reward) .*/, '$1 N').replace(/[\d.]+ s ·/, 'N s ·'));

describe('a run whose output goes to pipes', () => {
  test('shows nothing if told so', async () => {
    const { output, errors, code } = await pipe('silent', { progress: false });
    expect([errors, code]).toEqual(['', 0]);
    expect(output).toContain('run_ended\n{"reason":"finished"');
  });

  test('shows plain lines on standard error without the option, in CI too', async () => {
    const { output, errors, code } = await pipe('plain', {}, { ...attended, CI: 'true' });
    expect([withoutFigures(errors), code]).toEqual([
      [
        `training local/resume/plain:step0: 2 steps of 2 groups × 3, in ${runs.path('plain')}`,
        'evaluation before …',
        'before: reward N',
        '1 of 2 steps  reward N',
        '2 of 2 steps  reward N',
        'evaluation after …',
        'after: reward N',
        `finished · N s · record in ${runs.path('plain')}`,
        '',
      ],
      0,
    ]);
    expect(output).not.toContain('reward ');
  });

  test('says once that it goes on with a model that was trained before', async () => {
    await pipe('first', { name: 'known', progress: false });
    const { errors } = await pipe('second', { name: 'known', validation: undefined });
    expect(withoutFigures(errors).slice(0, 3)).toEqual([
      expect.stringMatching(/^training local\/resume\/known:step\d: 2 steps/),
      expect.stringMatching(/^goes on from step [12] of local\/resume\/known, which was trained before$/),
      'evaluation before …',
    ]);
    expect(errors.match(/goes on from/g)).toHaveLength(1);
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
    const started = spawn(
      process.execPath,
      [...fromSource, child, settings('unread', { progress: 'plain' })],
      {
        ...{ env: attended, stdio: ['ignore', 'pipe', 'pipe'] },
      },
    );
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
    const command = [process.execPath, ...fromSource, program, settings(name, more)];
    const quoted = command.map((part) => `'${part}'`).join(' ');
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

  test('shows nothing if told so', { tags: ['long'] }, async () => {
    const { lines } = await attend('off', { progress: false });
    expect(lines.join('\n')).toContain('run_ended\n{"reason":"finished"');
    expect(lines.join('\n')).not.toMatch(/martingale|of 2 steps/);
  });

  test.each<[string, string, NodeJS.ProcessEnv]>([
    ['it is that of a CI', 'ci', { CI: 'true' }],
    ['it cannot repaint', 'dumb', { TERM: 'dumb' }],
  ])('shows plain lines where %s', { tags: ['long'] }, async (_, name, env) => {
    const { lines, writes } = await attend(name, {}, env);
    expect(lines.join('\n')).toMatch(/\n2 of 2 steps {2}reward/);
    expect(writes.join('')).not.toContain('\u001b');
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
