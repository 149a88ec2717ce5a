import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { readJsonLines, sharedFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';

const folder = sharedFolder();

type Line = { type: string; [field: string]: unknown };

/** A recipe, its service and its engine in one process, killed after the line for which `isLast` is true. */
async function run(name: string, flags: string[], isLast: (line: Line) => boolean = () => false) {
  const size = ['--steps', '4', '--groups', '4', '--rollouts-per-group', '4', '--threads', '1'];
  const file = [...fromSource, 'recipes/tone/train.ts', '--json', '--run-directory', join(folder, name)];
  const child = spawn(process.execPath, [...file, ...size, ...flags], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = once(child, 'close');
  const errors = text(child.stderr);
  const lines: Line[] = [];
  for await (const read of createInterface(child.stdout)) {
    const line: Line = JSON.parse(read);
    lines.push(line);
    if (isLast(line)) child.kill('SIGKILL');
  }
  const [code] = await closed;
  return { code, lines, errors: await errors };
}

/** The fields of the reports that do not depend on the clock. */
async function metricsOf(name: string): Promise<object[]> {
  const lines = await readJsonLines(join(folder, name, 'training', 'metrics.jsonl'));
  return lines.map((line) => ({
    ...line,
    seconds: 0,
    phases: null,
    tokensPerSecond: 0,
    loopDelayMs: 0,
    loopHeldMs: 0,
  }));
}

it('a recipe killed with its service and engine, several times, resumes to the same result', {
  tags: ['long'],
}, async () => {
  const whole = await run('whole', []);
  expect(whole.errors).toBe('');
  await run('killed', [], ({ type, step }) => type === 'step' && step === 0);
  await run('killed', ['--resume'], ({ type, step }) => type === 'step' && step === 2);
  const refused = await run('killed', ['--resume', '--groups', '3']);
  expect(refused.errors).toContain('`groupsPerStep` was 4 and is 3');
  expect(refused.code).toBe(1);
  const ended = await run('killed', ['--resume']);
  expect(ended.errors).toBe('');
  expect(ended.lines.find(({ type }) => type === 'run_started')).toHaveProperty('finishedSteps');
  expect(ended.lines.at(-1)).toMatchObject({ reason: 'finished', steps: 4 });
  const { evaluation, counts, model }: Partial<Line> = whole.lines.at(-1) ?? {};
  expect(ended.lines.at(-1)).toMatchObject({ evaluation, counts, model });
  expect(await metricsOf('killed')).toEqual(await metricsOf('whole'));
});
