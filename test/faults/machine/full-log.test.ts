import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { smallDisk } from './small-disk.ts';

const program = fileURLToPath(new URL('log-program.ts', import.meta.url));

/** A program that logs each line of its input to standard error, which is a file. */
function startLogging(file: string, under: readonly string[] = []) {
  const command = [...under, 'sh', '-c', 'exec "$0" "$1" 2>> "$2"', process.execPath, program, file];
  const [first = '', ...rest] = command;
  const child = spawn(first, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return async (line: string): Promise<string> => {
    const said = Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    child.stdin.write(`${line}\n`);
    return String((await said)[0]).trim();
  };
}

/** Every write to it fails as on a full disk. */
const fullDevice = '/dev/full';

test.skipIf(!existsSync(fullDevice))('a log that cannot be written does not end the process', async () => {
  const log = startLogging(fullDevice);
  expect([await log('a'), await log('b')]).toEqual(['done', 'done']);
});

test('a log continues when its full disk has room again', async (context) => {
  const disk = await smallDisk();
  if (!disk) return context.skip();
  const file = join(disk.place, 'log');
  const log = startLogging(file, disk.under);
  disk.fill();
  expect(await log('lost')).toBe('done');
  disk.free();
  expect(await log('kept')).toBe('done');
  expect(readFileSync(disk.seen(file), 'utf8')).toBe('kept\n');
});
