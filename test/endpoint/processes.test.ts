import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { expectExact, openDesk, openRollout, twoTurns } from './support.ts';

const run = promisify(execFile);
const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const hasPython = spawnSync('python3', ['--version']).status === 0;

async function expectRecorded(command: string, script: string) {
  await using desk = await openDesk(twoTurns);
  const { trajectory, endpoint } = openRollout();
  const { baseUrl, apiKey } = await endpoint(desk.model);
  const env = { ...process.env, OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: apiKey };
  const { stdout } = await run(command, [script], { env });
  expect(stdout.trim()).toBe('it is paid');
  expect(trajectory.histories).toHaveLength(1);
  expect(trajectory.choices).toHaveLength(2);
  expectExact(trajectory, desk.service.requests);
}

test.runIf(hasPython)('an agent in Python, in a process of its own, is recorded', () =>
  expectRecorded('python3', file('agent.py')),
);

test('an agent in another Node process is recorded', () =>
  expectRecorded(process.execPath, file('agent.mjs')));

test('the endpoint keeps no process alive, with a key open and a connection kept', async () => {
  const { stdout } = await run(process.execPath, [file('leave-open.ts')], {
    timeout: 20_000,
  });
  expect(stdout.trim()).toBe('200');
});
