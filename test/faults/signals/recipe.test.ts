import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { door } from '../../support/scripted-engine.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';
import { readRecord } from '../../training/resume/run-child.ts';
import { type FaultMode, underFaults } from '../driver/fault.ts';
import { openLine } from './line.ts';
import { type Program, startProgram } from './program.ts';

const folder = sharedFolder();
let engine: CoinEngine;
let service: Awaited<ReturnType<typeof startService>>;
let line: Awaited<ReturnType<typeof openLine>>;
let whole: Awaited<ReturnType<typeof readRecord>>;

beforeAll(async () => {
  engine = new CoinEngine();
  service = await startService({ engine, dataFolder: join(folder, 'data'), log: () => undefined });
  line = await openLine(service.url);
  const ended = await recipe('whole').ended;
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  whole = await recordOf('whole');
});
afterAll(async () => {
  await line?.close();
  await service?.close();
});

interface RecipeSettings {
  flags?: readonly string[];
  agent?: string;
  execArgv?: readonly string[];
  env?: NodeJS.ProcessEnv;
}

function recipe(name: string, { flags = [], agent = '', execArgv, env }: RecipeSettings = {}): Program {
  const to = ['--base-url', line.url, '--api-key', service.apiKey, '--base-model', 'scripted-tiny'];
  return startProgram({
    file: 'test/faults/signals/coins-recipe.ts',
    flags: ['--run-directory', join(folder, name), ...to, ...flags],
    ...(execArgv && { execArgv }),
    env: { ...env, SIGNALS_AGENT: agent, NODE_COMPILE_CACHE: join(folder, 'compiled') },
  });
}

const recordOf = (name: string) => readRecord(join(folder, name, 'training'));

/** The resumed run ends as it would have undisturbed. */
async function goesOn(name: string): Promise<void> {
  const ended = await recipe(name, { flags: ['--resume'] }).ended;
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  expect(await recordOf(name)).toEqual(whole);
}

/** Holds the service's training after the first step, so that the run waits for its job. */
async function holdTraining() {
  const held = door();
  let trainings = 0;
  engine.hold = async (place) => {
    if (place === 'train' && trainings++ > 0) await held.wait();
  };
  return {
    reached: held.reached,
    release: () => {
      engine.hold = null;
      held.open();
    },
  };
}

// On Windows, no process can send these to another.
describe.skipIf(process.platform === 'win32')('a recipe', () => {
  for (const { signal, code, ...options } of [
    { signal: 'SIGINT', code: 130 },
    { signal: 'SIGTERM', code: 143, tags: ['long'] },
  ] satisfies { signal: NodeJS.Signals; code: number; tags?: string[] }[])
    it(`that gets ${signal} stops cleanly with status ${code} and resumes`, options, async () => {
      const held = await holdTraining();
      const program = recipe(signal);
      await held.reached;
      program.child.kill(signal);
      const ended = await program.ended;
      held.release();
      expect(ended).toMatchObject({ code, stderr: '' });
      expect(ended.stdout).toContain(
        'Stopping within 20 s. Press Ctrl-C again to exit at once. In both cases --resume continues the run.',
      );
      expect(ended.stdout).toContain('Stopped after 1 step. Continue with:\n  coins --seed 1');
      await goesOn(signal);
    });

  it('exits at its limit if the service is silent, and resumes', { tags: ['long'] }, async () => {
    const held = await holdTraining();
    const program = recipe('silent', { flags: ['--stop-within', '1'] });
    await held.reached;
    line.silence(true);
    program.child.kill('SIGTERM');
    const ended = await program.ended;
    line.silence(false);
    held.release();
    expect(ended.code).toBe(143);
    expect(ended.stderr).toContain(
      'Some work did not end within 1 s. Continue from the data on disk:\n  coins',
    );
    await goesOn('silent');
  });

  it('exits at once at the second signal, and resumes', { tags: ['long'] }, async () => {
    const held = await holdTraining();
    const program = recipe('twice', { flags: ['--stop-within', '600'] });
    await held.reached;
    line.silence(true);
    let isOver = false;
    const ending = program.ended.finally(() => {
      isOver = true;
    });
    program.child.kill('SIGINT');
    await program.said(/Stopping within 600 s/);
    // Signals of the first half second count as one.
    while (!isOver) {
      program.child.kill('SIGINT');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const ended = await ending;
    line.silence(false);
    held.release();
    expect(ended).toMatchObject({ code: 130, signal: null });
    expect(ended.stderr).toContain('Exited at once. Continue from the data on disk:');
    await goesOn('twice');
  });

  it('exits at its limit if an agent never returns and leaves a timer running', {
    tags: ['long'],
  }, async () => {
    const program = recipe('never', { agent: 'never returns', flags: ['--stop-within', '1'] });
    await program.said(/evaluation before/i);
    program.child.kill('SIGINT');
    const ended = await program.ended;
    expect(ended).toMatchObject({ code: 130, signal: null });
    await goesOn('never');
  });

  it('ends although an agent has left a timer running, and says so', { tags: ['long'] }, async () => {
    const ended = await recipe('leak', { agent: 'leaks a timer' }).ended;
    expect(ended.code).toBe(0);
    expect(ended.stderr).toBe('Exited although something was still running: Timeout.\n');
    expect(await recordOf('leak')).toEqual(whole);
  });

  it('is killed at its limit if something blocks the event loop', { tags: ['long'] }, async () => {
    const held = door();
    engine.hold = () => held.wait();
    const program = recipe('holding', { agent: 'holds the loop', flags: ['--stop-within', '1'] });
    await held.reached;
    program.child.kill('SIGINT');
    const ended = await program.ended;
    engine.hold = null;
    held.open();
    expect(ended).toMatchObject({ code: null, signal: 'SIGKILL' });
    await goesOn('holding');
  });

  it('stops cleanly when nobody reads its output any more, and resumes', {
    tags: ['long'],
  }, async () => {
    const program = recipe('unread', { flags: ['--json'] });
    await program.said(/run_started/);
    program.child.stdout.destroy();
    const ended = await program.ended;
    expect(ended.code).toBe(141);
    expect(ended.stderr).toBe('The output was closed. Stopping within 20 s; --resume continues the run.\n');
    await goesOn('unread');
  });

  for (const { mode, message, ...options } of [
    { mode: 'ENOSPC', message: /no space left on device/ },
    { mode: 'EROFS', message: /read-only file system/, tags: ['long'] },
  ] satisfies { mode: FaultMode; message: RegExp; tags?: string[] }[])
    it(`whose disk fails with ${mode} says so, and resumes when it works`, options, async () => {
      const flag = join(folder, `${mode}-flag`);
      const held = await holdTraining();
      const faults = underFaults({ root: join(folder, mode), mode, while: flag });
      const program = recipe(mode, faults);
      await held.reached;
      await writeFile(flag, '');
      held.release();
      const ended = await program.ended;
      expect(ended.code).toBe(1);
      expect(ended.stderr).toMatch(message);
      expect(ended.stderr).toContain('[storage_failed]');
      expect(ended.stderr).not.toMatch(/^\s+at /m);
      await rm(flag);
      await goesOn(mode);
    });
});
