import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeFailure } from '../../src/cli/program-end.ts';
import { jsonLine, MartingaleError } from '../../src/contract/index.ts';
import { createJsonView } from '../../src/progress/open-progress.ts';
import { createPlainView } from '../../src/progress/plain.ts';
import { paint } from '../../src/progress/text.ts';
import { command } from '../support/command.ts';
import { temporaryFolder } from '../support/files.ts';
import { makeRun } from '../view/make-run.ts';

/** Clears the screen, sets the title, hides text, changes its direction, returns to the start of the line. */
const hostile = [
  ...['\u001b[2J', '\u001b]0;title\u0007', '\u009b31m', '\u009d0;title\u009c', '\u001bc', '\u0008\u0008'],
  ...['one\rtwo', '\u202egnp.exe', '\u2066x', '\u007f', 'a\u2028b', '\u0000', '\u001b[8mhidden'],
].join(' ');

/** Control characters except line ends. */
const active = /(?!\n)[\p{Control}\p{Bidi_Control}\u2028]/u;

test('a log entry stays one line of JSON without control characters', () => {
  const entry = { level: 'info', event: 'request', path: `${hostile}\n{"level":"error"}`, [hostile]: 1 };
  const line = jsonLine(entry);
  expect(line.slice(0, -1)).toMatch(/^[\u0020-\u007e]*$/);
  expect(line.at(-1)).toBe('\n');
  expect(JSON.parse(line)).toEqual(entry);
});

test('the message of a failure cannot control the terminal', () => {
  const error = new MartingaleError('bad', `the service said ${hostile}`);
  const failures = [
    error,
    new Error(hostile),
    Object.assign(new Error(hostile), { syscall: 'open' }),
    hostile,
  ];
  for (const failure of failures) expect(describeFailure(failure)).not.toMatch(active);
  expect(describeFailure(new MartingaleError('bad', 'one\ntwo'))).toBe('error: one\ntwo [bad]');
});

test('a folder with a hostile name cannot control the terminal of those who look at its run', async () => {
  const parent = await temporaryFolder();
  const folder = join(parent, hostile.replaceAll('\u0000', ''));
  await makeRun({ runDirectory: folder, steps: 1, groupsPerStep: 1, rolloutsPerGroup: 2 });
  for (const args of [['runs'], ['show'], ['show', '--step', '0'], ['compare', folder, folder]]) {
    const { stdout, stderr } = await command([...args, '--in', parent]);
    expect([args, `${stdout}${stderr}`]).toEqual([args, expect.not.stringMatching(active)]);
  }
});

test('names that a run shows cannot control the terminal, in any view', () => {
  const written: string[] = [];
  const output = { write: (text: string) => void written.push(text) };
  const event = {
    ...{ type: 'run_started', model: hostile, environment: hostile, runDirectory: hostile },
    ...{ steps: 1, groupsPerStep: 1, rolloutsPerGroup: 1 },
  } as const;
  for (const view of [createPlainView(output), createJsonView(output, output)]) {
    Reflect.apply(view.listen, view, [event]);
    view.note(`first\nsecond ${hostile}`);
  }
  expect(written.length).toBeGreaterThanOrEqual(4);
  for (const text of written) expect(text).not.toMatch(active);
  expect(paint([{ text: hostile }, { text: `a\n${hostile}`, style: 'red' }], false)).not.toMatch(
    /\p{Control}/u,
  );
});
