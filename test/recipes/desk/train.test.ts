import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { z } from 'zod';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';

const score = z.object({ reward: z.number(), success: z.number() });
const evaluationSchema = z.object({ before: score, after: score });

type Line = { type: string; [field: string]: unknown };

let folder: string;
let child: ChildProcessByStdio<null, Readable, Readable> | undefined;

beforeEach(async () => {
  folder = await temporaryFolder();
});
afterEach(async () => {
  child?.kill('SIGKILL');
});

/** `npm start -- --json ...` without npm: every line of standard output, and how it ended. */
async function start(
  flags: string[],
  onLine: (line: Line) => void = () => {},
  { recipe = 'desk', loader = ['--import', 'tsx'] as readonly string[] } = {},
) {
  const started = spawn(
    process.execPath,
    [...loader, `recipes/${recipe}/train.ts`, '--json', '--run-directory', folder, ...flags],
    { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  child = started;
  const ended = once(started, 'close');
  const lines: Line[] = [];
  let errors = '';
  started.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  for await (const text of createInterface(started.stdout)) {
    const line: Line = JSON.parse(text);
    lines.push(line);
    onLine(line);
  }
  const [code] = await ended;
  return { code, lines, errors };
}

/** Trains; gives the evaluation before and after. */
async function trained(
  program: { recipe: string; loader?: readonly string[] },
  count: number,
  dispatched: number,
  ...flags: string[]
) {
  const { code, lines, errors } = await start(['--steps', String(count), ...flags], undefined, program);
  expect(errors).toBe('');
  expect(code).toBe(0);

  const steps = lines.filter(({ type }) => type === 'step');
  expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: count }, (_, step) => step));
  const counts = { dispatched, completed: dispatched, failed: 0, cancelled: 0 };
  for (const { logprobDifference, ...step } of steps) {
    expect(step).toMatchObject(counts);
    expect(logprobDifference).toBeLessThan(1e-4);
  }

  const summary = lines.at(-1);
  expect(summary).toMatchObject({
    type: 'summary',
    reason: 'finished',
    seed: 1,
    steps: count,
    runDirectory: folder,
  });
  const metrics = await readFile(join(folder, 'training/metrics.jsonl'), 'utf8');
  expect(metrics.trim().split('\n')).toHaveLength(count);
  return evaluationSchema.parse(summary?.evaluation);
}

test('a short recipe trains, keeps its counts and says so in JSON lines', async () => {
  await trained(
    { recipe: 'search', loader: fromSource },
    2,
    16,
    '--groups',
    '4',
    '--rollouts-per-group',
    '4',
  );
});

describe('npm start', () => {
  it('learns in 40 steps, keeps its counts and says so in JSON lines', { tags: ['long'] }, async () => {
    const { before, after } = await trained({ recipe: 'desk' }, 40, 96);
    expect(before.success).toBeLessThan(0.3);
    expect(after.reward).toBeGreaterThan(0.8);
    expect(after.success).toBeGreaterThan(0.6);
  });

  it('ends in good order when it is interrupted', { tags: ['long'] }, async () => {
    const { code, lines, errors } = await start(['--threads', '1'], ({ type }) => {
      if (type === 'phase') child?.kill('SIGINT');
    });
    expect(lines.map(({ type }) => type)).toEqual(['run_started', 'phase', 'run_ended', 'summary']);
    expect(lines.at(-1)).toMatchObject({ reason: 'stopped', steps: 0 });
    expect(errors).toBe(
      'Stopping within 20 s. Press Ctrl-C again to exit at once. In both cases --resume continues the run.\n',
    );
    expect(code).toBe(130);
  });

  it('says what is wrong with the service it is given', { tags: ['long'] }, async () => {
    const { code, lines, errors } = await start(['--base-url', 'http://127.0.0.1:1', '--api-key', 'key']);
    expect(lines).toEqual([]);
    expect(errors).toMatch(/^error: .*ECONNREFUSED.*\[connection_failed\]\n$/);
    expect(code).toBe(1);
  });
});
