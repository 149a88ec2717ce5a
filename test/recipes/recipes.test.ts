import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { temporaryFolder } from '../support/files.ts';
import { fromSource, root } from '../support/programs.ts';

const run = promisify(execFile);

const score = z.object({ reward: z.number(), success: z.number() });
const summarySchema = z.object({
  type: z.literal('summary'),
  reason: z.literal('finished'),
  steps: z.number(),
  evaluation: z.object({ before: score, after: score }),
  counts: z.object({ dispatched: z.number(), completed: z.number() }),
});

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

/** The summary of a recipe's run, its last line. */
async function summaryOf(recipe: string, steps: number, sizes: readonly string[] = []) {
  const flags = ['--json', '--seed', '1', '--steps', String(steps), '--run-directory', folder, ...sizes];
  const { stdout } = await run(process.execPath, [...fromSource, `recipes/${recipe}/train.ts`, ...flags], {
    cwd: root,
    maxBuffer: 2 ** 26,
  });
  return summarySchema.parse(JSON.parse(stdout.trim().split('\n').at(-1) ?? ''));
}

describe('the recipes', { tags: ['long'] }, () => {
  // That of search has a short test.
  it.each(['sort', 'tictactoe', 'market'])('%s runs, and every rollout completes', async (recipe) => {
    const { steps, counts } = await summaryOf(recipe, 1, ['--groups', '4', '--rollouts-per-group', '4']);
    expect(steps).toBe(1);
    expect(counts).toEqual({ dispatched: 16, completed: 16 });
  });

  it('tone learns what the judge likes from its ranks alone', async () => {
    const { evaluation } = await summaryOf('tone', 60);
    expect(evaluation.before.success).toBeLessThan(0.1);
    expect(evaluation.after.success).toBeGreaterThan(0.5);
  });
});
