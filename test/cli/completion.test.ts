import { execFileSync } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { expect, it } from 'vitest';
import { completionScript } from '../../src/cli/completion.ts';
import { createProgram } from '../../src/cli/program.ts';
import { temporaryFolder } from '../support/files.ts';

it('in bash, martingale runs and completes where only npx has it', async () => {
  const folder = await temporaryFolder();
  const npx = join(folder, 'npx');
  await writeFile(npx, '#!/bin/sh\necho "npx $*"\n');
  await chmod(npx, 0o755);
  const program = new Command('martingale');
  program.command('serve').option('--port <number>');
  const lines = [
    completionScript(program, 'bash'),
    'martingale serve --port 1',
    'COMP_WORDS=(martingale se) COMP_CWORD=1; _martingale; echo "$COMPREPLY"',
    'COMP_WORDS=(martingale serve --p) COMP_CWORD=2; _martingale; echo "$COMPREPLY"',
  ];
  const script = lines.join('\n');
  const env = { PATH: `${folder}:/usr/bin:/bin` };
  const said = execFileSync('bash', ['--norc', '-c', script], { env }).toString();
  expect(said.trim().split('\n')).toEqual(['npx --no martingale serve --port 1', 'serve', '--port']);
});

it('each command of the help is there without the others', async () => {
  const namesIn = async (asked?: string) =>
    (await createProgram(asked)).commands.map((command) => command.name());
  const all = await namesIn(undefined);
  expect(all).toEqual(expect.arrayContaining(['init', 'serve', 'show', 'preflight', 'chat', 'completion']));
  expect(await namesIn('--help')).toEqual(all);
  for (const name of all.filter((name) => name !== 'completion')) {
    const found = await namesIn(name);
    expect(found).toContain(name);
    expect(found.length).toBeLessThan(5);
  }
});
