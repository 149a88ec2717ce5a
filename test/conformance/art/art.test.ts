import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Json } from '../../service/harness.ts';
import { testScale } from '../../support/size.ts';
import { apiKey, service } from '../support.ts';
import { artEnvironment } from './python-environment.ts';

const program = fileURLToPath(new URL('program.py', import.meta.url));
const seeds = 2 * testScale;
const loops = Array.from({ length: seeds }, (_, index) => `learns:${index + 1}`);
const longestMs = 600_000;

/** Runs the parts of the program concurrently in their own folder; returns what each one reports. */
async function runParts(python: string, url: string, parts: readonly string[]): Promise<Map<string, Json>> {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-art-'));
  try {
    const { stdout } = await promisify(execFile)(python, [program, `${url}/v1`, apiKey, ...parts], {
      cwd: folder,
      // Nothing is sent to Weights & Biases, and no list of prices is fetched.
      env: { PATH: process.env.PATH, HOME: folder, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
      timeout: longestMs,
      maxBuffer: 2 ** 26,
    });
    const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
    return new Map(lines.map((line) => JSON.parse(line)).map((told: Json) => [told.part, told]));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The trainer gives each token the probability that the sampler gave it. */
const onPolicy = { logprob_difference_max: expect.closeTo(0, 4) };

describe('a program of ART', { tags: ['long'] }, () => {
  const running = service();
  let told = new Map<string, Json>();
  let missing: string | null = null;

  beforeAll(async () => {
    const environment = await artEnvironment();
    if ('missing' in environment) missing = `The tests of ART's client did NOT run: ${environment.missing}.`;
    else
      told = await runParts(environment.python, running.url, [
        ...['lives', 'converses', 'streams', 'stays'],
        ...loops,
      ]);
    if (missing) console.error(`\n!!! ${missing}\n`);
  }, longestMs);
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ''));

  it('registers a model, samples, logs, trains, lists checkpoints, deletes them and the model', () => {
    expect(told.get('lives')).toEqual({
      part: 'lives',
      steps: [1, 2],
      artifact: 'local/colours/lives:step2',
      metrics: expect.objectContaining({
        ...onPolicy,
        'data/step_num_groups_submitted': 4,
        'data/step_num_gradient_steps': 1,
        'loss/train': expect.any(Number),
      }),
      made: [0, 1, 2],
      left: [2],
      same: true,
      anew: true,
    });
  });

  it('trains on several turns whose replies return as text, with tool calls', () => {
    expect(told.get('converses')).toMatchObject({ step: 1, metrics: onPolicy });
  });

  it('trains on what its own reader joins from a stream', () => {
    expect(told.get('streams')).toMatchObject({ step: 1, metrics: onPolicy });
  });

  it('continues after a job without a signal, from the same checkpoint', () => {
    expect(told.get('stays')).toEqual({
      part: 'stays',
      silent: {
        step: 0,
        artifact: 'local/colours/stays:step0',
        metrics: expect.objectContaining({ 'data/step_num_groups_trainable': 0 }),
      },
      after_silent: [0],
      step: 1,
    });
  });

  it.each(loops)('earns more reward by its loop: %s', (loop) => {
    const { rewards, error } = told.get(loop) ?? { error: 'it told nothing' };
    expect(error).toBeUndefined();
    const last = rewards.slice(-3);
    const mean = last.reduce((sum: number, reward: number) => sum + reward, 0) / last.length;
    expect(mean).toBeGreaterThan(rewards[0] + 0.25);
  });
});
