import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import { extract } from '../../../recipes/extract/environment.ts';
import { type ExtractScenario, extractScenarios } from '../../../recipes/extract/scenarios.ts';
import { ModelHandle, runGroups } from '../../../src/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { startFakeService } from '../../model/fake-service.ts';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';

const scenarios = extractScenarios({ split: 'val', seed: 1, count: 40 });

/** Reward and success of a model that answers so. */
async function answered(reply: (scenario: ExtractScenario) => object) {
  await using service = await startFakeService({
    policy: ({ messages }) => {
      const text = String(messages.find(({ role }) => role === 'user')?.content);
      const scenario = scenarios.find(({ message }) => message === text);
      return { text: JSON.stringify(scenario ? reply(scenario) : {}) };
    },
  });
  const model = new ModelHandle({ client: service.client, name: 'local/extract/policy:step0' });
  const { groups } = await runGroups({ environment: extract, scenarios, rolloutsPerGroup: 1, model });
  const trajectories = groups.flatMap((group) => group.trajectories);
  expect(trajectories).toHaveLength(scenarios.length);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    reward: mean(trajectories.map(({ reward }) => reward ?? Number.NaN)),
    success: mean(trajectories.map(({ metrics }) => Number(metrics.success))),
  };
}

describe('the messages', () => {
  it('share no name, item, city and phrasing between the splits, name all four fields, and follow from the seed', () => {
    const train = extractScenarios({ split: 'train', seed: 1, count: 500 });
    expect(extractScenarios({ split: 'train', seed: 1, count: 500 })).toEqual(train);
    expect(extractScenarios({ split: 'train', seed: 2, count: 500 })).not.toEqual(train);
    for (const field of ['customer', 'item', 'city'] as const) {
      const known = new Set(train.map(({ order }) => order[field]));
      expect(scenarios.filter(({ order }) => known.has(order[field]))).toEqual([]);
    }
    for (const { message, order } of [...train, ...scenarios])
      for (const value of Object.values(order)) expect(message).toContain(String(value));
    const formOf = ({ message, order }: ExtractScenario) =>
      Object.values(order).reduce<string>((text, value) => text.replace(String(value), '_'), message);
    const forms = new Set(train.map(formOf));
    expect(scenarios.map(formOf).filter((form) => forms.has(form))).toEqual([]);
  });
});

describe('the reward', () => {
  it('is the share of the right fields, and success needs all of them', async () => {
    expect(await answered(({ order }) => order)).toEqual({ reward: 1, success: 1 });
    expect(await answered(({ order }) => ({ ...order, count: order.count + 1 }))).toEqual({
      reward: 0.75,
      success: 0,
    });
    expect(await answered(() => ({ customer: '', city: '', item: '', count: 0 }))).toEqual({
      reward: 0,
      success: 0,
    });
  });
});

describe('a checkpoint', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await generateCheckpoint(await temporaryFolder(), 'smollm2');
  });

  const run = async (file: string, ...flags: string[]) => {
    const program = [
      ...fromSource,
      `recipes/extract/${file}`,
      '--checkpoint',
      folder,
      '--steps',
      '1',
      ...flags,
    ];
    const { stdout } = await promisify(execFile)(process.execPath, program, { cwd: root });
    return stdout.trimEnd();
  };

  it('is trained by the program', async () => {
    const sizes = ['--groups', '2', '--rollouts-per-group', '2'];
    const output = await run('train.ts', ...sizes, '--json', '--run-directory', join(folder, 'run'));
    expect(JSON.parse(output.split('\n').at(-1) ?? '')).toMatchObject({
      type: 'summary',
      reason: 'finished',
    });
  });

  it('goes no way with a wrong flag, which is named', async () => {
    await expect(run('ways.ts', '--held', '0')).rejects.toThrow(
      '`--held` is 0. Pass a whole number of at least 1.',
    );
  });

  it('goes all ways, into one table', { tags: ['long'] }, async () => {
    const sizes = ['--context', '256', '--rollouts', '2', '--held', '3', '--directory', join(folder, 'ways')];
    const output = await run('ways.ts', ...sizes);
    for (const way of ['before', 'prompt', 'trained', 'taught', 'replies', 'both'])
      expect(output).toMatch(new RegExp(`^ *${way} +\\d\\.\\d`, 'm'));
    expect(output).toMatch(/taught, success by step: 0: \d\.\d\d/);
  });
});
