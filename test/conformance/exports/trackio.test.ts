import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { readRun } from '../../../src/training/index.ts';
import { output } from '../../support/command.ts';
import { temporaryFolder } from '../../support/files.ts';
import { makeRun } from '../../view/make-run.ts';
import { pythonEnvironment } from '../python-environment.ts';

/** Prints the address, and ends with its parent. */
const server = `
import os, sys, trackio
trackio.show(open_browser=False, block_thread=False)
sys.stdin.read()
os._exit(0)
`;

it('a Trackio server has the figures of all steps, once, however often they are sent', {
  tags: ['long'],
}, async ({ skip }) => {
  const environment = await pythonEnvironment({
    what: 'that Trackio takes the figures of a run',
    requirements: ['trackio==0.43.0'],
  });
  if (!environment) return skip('trackio cannot be installed');
  const folder = await temporaryFolder();
  const env = {
    ...process.env,
    TRACKIO_WRITE_TOKEN: 'secret',
    TRACKIO_DIR: join(folder, 'trackio'),
    NO_PROXY: '*',
  };
  const child = spawn(environment.python, ['-c', server], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stdout.on('data', (piece) => {
    said += piece;
  });
  const addressIn = () => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
  await expect.poll(addressIn, { timeout: 60_000 }).toBeDefined();
  const url = addressIn() ?? '';
  await makeRun({ runDirectory: join(folder, 'desk'), steps: 4, groupsPerStep: 2, rolloutsPerGroup: 2 });
  const send = (token: string) =>
    output(['export', 'desk', '--in', folder, '--to', 'trackio', '--out', url], {
      TRACKIO_WRITE_TOKEN: token,
    });
  expect(await send('secret')).toMatch(/^4 steps in .*, project ticket desk\n$/);
  await send('secret');
  await expect(send('wrong')).rejects.toThrow(/took 0 of 4 steps: 4\d\d/);
  const answer = await fetch(`${url}/api/get_metric_values`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ project: 'ticket desk', run: 'desk', metric_name: 'reward' }),
  });
  const { data } = z
    .object({ data: z.array(z.object({ step: z.number(), value: z.number() })) })
    .parse(await answer.json());
  const reports = await (await readRun(join(folder, 'desk'))).reports();
  expect(data.map(({ step, value }) => [step, value])).toEqual(
    reports.map(({ step, reward }) => [step, reward]),
  );
});
