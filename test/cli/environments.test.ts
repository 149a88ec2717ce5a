import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { RawClient } from '../formats/open-reward/serve/client.ts';
import { command } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { fromSource, root } from '../support/programs.ts';

const journal = join(sharedFolder(), 'journal');
const safeFile = join(import.meta.dirname, '../formats/open-reward/serve/safe-file.ts');
const children: ChildProcess[] = [];
afterAll(() => children.forEach((child) => void child.kill('SIGKILL')));

function start(file: string, ...flags: string[]) {
  const program = [...fromSource, 'src/cli/main.ts', 'environments', 'serve', file, '--port', '0', ...flags];
  const child = spawn(process.execPath, program, {
    cwd: root,
    env: { ...process.env, SAFE_JOURNAL: journal },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  return child;
}

describe('martingale environments serve', () => {
  it('serves the splits that a module exports, and cleans up all sessions at SIGTERM', async () => {
    const child = start(safeFile, '--split', 'train=scenarios', '--split', 'short=short');
    let said = '';
    for await (const chunk of child.stdout) {
      said += chunk;
      if (said.includes('Ctrl-C')) break;
    }
    expect(said).toMatch(
      /^serving the environment Safe on http.*\nsplits: train, short\nkey: \S{32} \(made for this process/,
    );
    const client = new RawClient(/http:\/\/[^\s,]+/.exec(said)?.[0] ?? '', {
      'x-api-key': /key: (\S+)/.exec(said)?.[1] ?? '',
    });
    expect((await client.answer('/splits'))[1]).toEqual([
      { name: 'train', type: 'train' },
      { name: 'short', type: 'validation' },
    ]);
    for (const index of [0, 1, 2]) await client.answer('/prompt', { session: await client.begin(index) });
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
    const notes = (await readFile(journal, 'utf8')).trimEnd().split('\n').sort();
    expect(notes).toEqual(['close 1', 'close 2', 'close 3', 'open 1', 'open 2', 'open 3']);
  });

  it.for([
    [safeFile, ['--split', 'test=absent'], 'has no scenarios in its export `absent`'],
    [safeFile, ['--split', 'test'], 'It must be split=export'],
    [safeFile, ['--export', 'scenarios'], 'exports no environment as `scenarios`'],
    [
      join(import.meta.dirname, 'environments/crossing.ts'),
      [],
      'it has `rollout`, so its agent is its own code',
    ],
  ] as const)('refuses %s %j with words', async ([file, flags, words]) => {
    const { stderr, code } = await command(['environments', 'serve', file, '--port', '0', ...flags]);
    expect([stderr, code]).toEqual([expect.stringContaining(words), 1]);
  });
});
