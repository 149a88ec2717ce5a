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

test('a short recipe trains, keeps its counts and says so in JSON lines', async () => {
  const sizes = ['--steps', '2', '--groups', '4', '--rollouts-per-group', '4'];
  const { code, lines, errors } = await start(sizes, undefined, { recipe: 'search', loader: fromSource });
  expect(errors).toBe('');
  expect(code).toBe(0);

  const steps = lines.filter(({ type }) => type === 'step');
  expect(steps.map(({ step }) => step)).toEqual([0, 1]);
  const counts = { dispatched: 16, completed: 16, failed: 0, cancelled: 0 };
  for (const { logprobDifference, ...step } of steps) {
    expect(step).toMatchObject(counts);
    expect(logprobDifference).toBeLessThan(1e-4);
  }

  const summary = lines.at(-1);
  const ended = { type: 'summary', reason: 'finished', seed: 1, steps: 2, runDirectory: folder };
  expect(summary).toMatchObject(ended);
  const metrics = await readFile(join(folder, 'training/metrics.jsonl'), 'utf8');
  expect(metrics.trim().split('\n')).toHaveLength(2);
  expect(evaluationSchema.parse(summary?.evaluation).after.reward).toBeGreaterThan(0);
});

// `.ci/run` lets it train to the end, and checks what it has learned.
describe('npm start', () => {
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
