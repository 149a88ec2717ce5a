// A recipe and its own service on a disk that is really full.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fromSource, root } from '../../support/programs.ts';
import { smallDisk } from './small-disk.ts';

const small = ['--steps', '2', '--groups', '2', '--rollouts-per-group', '4'];

test('a recipe tells once that its training waits for room on the disk, and ends on Ctrl-C', {
  tags: ['long'],
}, async (context) => {
  const disk = await smallDisk();
  if (!disk) return context.skip();
  const [command, ...namespace] = disk.under;
  const recipe = [
    join(root, 'recipes/market/train.ts'),
    ...small,
    '--run-directory',
    join(disk.place, 'run'),
  ];
  const child = spawn(command, [...namespace, process.execPath, ...fromSource, ...recipe], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let told = '';
  const closed = once(child, 'close');
  for await (const text of child.stdout) {
    told += text;
    if (told.includes('Training waits')) child.kill('SIGINT');
  }
  expect((await closed)[0]).toBe(130);
  const waits = told.split('\n').filter((line) => line.startsWith('Training waits'));
  expect(waits).toEqual([
    expect.stringMatching(/once this is over: ENOSPC.* \[storage_full\], in \/.*\/run\/service$/),
  ]);
});
