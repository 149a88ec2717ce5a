import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { sharedFolder } from '../../support/files.ts';
import { fromSource, outcomeOf } from '../../support/programs.ts';
import type { Fault } from './program.ts';

const program = fileURLToPath(new URL('program.ts', import.meta.url));
const counts = { dispatched: 48, completed: 48, failed: 0, cancelled: 0 };
const finished = { reason: 'finished', counts, reports: 3 };

const root = sharedFolder();

/** Trains in its own process; returns what it printed, in order. */
async function run(fault: Fault, given: { folder?: string; resume?: boolean; execArgv?: string[] } = {}) {
  const { folder = await mkdtemp(join(root, 'run-')), resume = false, execArgv = [] } = given;
  const options = JSON.stringify({ fault, folder, resume });
  const { output, errors, code } = await outcomeOf(
    spawn(process.execPath, [...fromSource, ...execArgv, program, options]),
  );
  const said: Record<string, unknown>[] = output
    .trimEnd()
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  return {
    folder,
    said,
    errors,
    status: code,
    warnings: said.filter(({ name }) => name === 'MartingaleWarning'),
  };
}

describe.concurrent('code of an environment', () => {
  test('that awaits everything gets no warning', { tags: ['long'] }, async () => {
    const { said, warnings } = await run('none');
    expect(said).toContainEqual(expect.objectContaining(finished));
    expect(warnings).toEqual([]);
  });

  test('that rejects twice, the second time without a listener, fails its rollout by the first and nothing else', {
    tags: ['long'],
  }, async () => {
    const { said, warnings, status } = await run('rejects twice');
    expect(status).toBe(0);
    expect(said).toContainEqual(
      expect.objectContaining({
        reason: 'finished',
        counts: { dispatched: 48, completed: 36, failed: 12, cancelled: 0 },
      }),
    );
    expect(warnings[0]).toMatchObject({ code: 'martingale_promise_left_behind', warning: /the second time/ });
  });

  test('whose unawaited promises reject gets five warnings and a log line each time', {
    tags: ['long'],
  }, async () => {
    const { said, warnings, status, folder } = await run('leaves a promise');
    expect(status).toBe(0);
    expect(said).toContainEqual(expect.objectContaining(finished));
    expect(warnings).toHaveLength(5);
    const lines = await readFile(join(folder, 'run', 'trajectories', 'step-0000.jsonl'), 'utf8');
    const logged = lines.match(/A promise that was not awaited rejected: left behind/g);
    expect(logged).toHaveLength(4);
  });

  for (const { fault, ...options } of [
    { fault: 'leaves a promise in a reward' },
    { fault: 'leaves a promise in a group reward', tags: ['long'] },
    { fault: 'leaves a promise for the next step', tags: ['long'] },
    { fault: 'leaves a promise for the job', tags: ['long'] },
  ] satisfies { fault: Fault; tags?: string[] }[])
    test(`that ${fault} does not end the run`, options, async () => {
      const { said, warnings, status } = await run(fault);
      expect(status).toBe(0);
      expect(said).toContainEqual(expect.objectContaining(finished));
      expect(warnings[0]).toMatchObject({
        code: 'martingale_promise_left_behind',
        // The line that made the error is in the user's code.
        warning: expect.stringMatching(/ \(at \/.*user-code\/program\.ts:\d+:\d+\)\. Await it/),
      });
    });

  test('whose promises are rejected by the end of its rollout gets no warning', {
    tags: ['long'],
  }, async () => {
    const { said, warnings, status } = await run('leaves what its end rejects');
    expect(status).toBe(0);
    expect(said).toContainEqual(expect.objectContaining(finished));
    expect(warnings).toEqual([]);
  });

  test('that computes for 700 ms in its rollouts raises an alarm', { tags: ['long'] }, async () => {
    const { said } = await run('holds the loop');
    expect(said).toContainEqual(expect.objectContaining({ alarm: 'event_loop_held' }));
    expect(said).toContainEqual(expect.objectContaining(finished));
  });

  test('cannot change what it returned: what is stored and logged is what was scored', {
    tags: ['long'],
  }, async () => {
    const { said, folder } = await run('changes what it handed over');
    expect(said).toContainEqual(expect.objectContaining(finished));
    expect(said).toContainEqual({
      refused: [
        ...['metrics: TypeError', 'logs: TypeError', 'metadata: TypeError', 'reward: TrajectoryError'],
        ...[
          'step reward: TrajectoryError',
          'token ids: TypeError',
          'message: TypeError',
          'entries: TypeError',
        ],
      ],
    });
    const onDisk = await readFile(join(folder, 'run', 'trajectories', 'step-0000.jsonl'), 'utf8');
    const [model = ''] = await readdir(join(folder, 'data', 'models'));
    const logged = gunzipSync(
      await readFile(join(folder, 'data', 'models', model, 'logs', 'train.jsonl.gz')),
    ).toString('utf8');
    for (const written of [onDisk, logged]) expect(written).not.toMatch(/late|"reward":99/);
  });
});

describe.concurrent('an exception that nobody can catch', () => {
  for (const { fault, message, ...options } of [
    { fault: 'rejects outside of any rollout', message: 'of somebody else' },
    { fault: 'throws in a timer', message: 'nobody catches this', tags: ['long'] },
  ] satisfies { fault: Fault; message: string; tags?: string[] }[])
    test(
      `${fault}: the process ends as Node ends it, and the run goes on from its directory`,
      options,
      async () => {
        const broken = await run(fault);
        expect(broken.status).toBe(1);
        expect(broken.errors).toContain(`Error: ${message}`);
        const { folder } = broken;
        // The first may have ended before the run had begun.
        const hasRun = (await readdir(folder)).includes('run');
        const { said } = await run('none', { folder, resume: hasRun });
        expect(said).toContainEqual(expect.objectContaining({ reason: 'finished', reports: 3 }));
      },
    );
});

test('a rejection outside the run is handled as Node is configured to', {
  tags: ['long'],
}, async () => {
  const { said, status } = await run('rejects outside of any rollout', {
    execArgv: ['--unhandled-rejections=warn'],
  });
  expect(status).toBe(0);
  expect(said).toContainEqual(expect.objectContaining(finished));
});

describe.concurrent('a function of the run', () => {
  test('that listens asynchronously and rejects gets one warning, and the run continues', {
    tags: ['long'],
  }, async () => {
    const { said } = await run('an asynchronous listener that rejects');
    const warned = said.filter(({ code }) => code === 'martingale_listener_failed');
    expect(warned).toHaveLength(1);
    expect(said).toContainEqual(expect.objectContaining(finished));
  });

  for (const { fault, error, ...options } of [
    {
      fault: 'scenarios that never come',
      error: { code: 'scenario_timeout', error: expect.stringContaining('the ones for step 1 within') },
    },
    { fault: 'scenarios that throw', error: { error: 'the file is broken' }, tags: ['long'] },
    {
      fault: 'a config that is a promise',
      error: { code: 'invalid_run_option', error: expect.stringContaining('`config`') },
      tags: ['long'],
    },
    {
      fault: 'a stopWhen that is a promise',
      error: { code: 'invalid_run_option', error: expect.stringContaining('`stopWhen`') },
      tags: ['long'],
    },
  ] satisfies { fault: Fault; error: object; tags?: string[] }[])
    test(`${fault}: the run ends with an error that names it`, options, async () => {
      const { said, status } = await run(fault);
      expect(status).toBe(0);
      expect(said).toContainEqual(expect.objectContaining(error));
    });
});
