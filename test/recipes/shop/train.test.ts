import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { shop } from '../../../recipes/shop/environment.ts';
import { shopScenarios } from '../../../recipes/shop/scenarios.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { train } from '../../../src/index.ts';
import { startService } from '../../../src/service/index.ts';
import { type Family, generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';

const run = promisify(execFile);

/** The program of the recipe with few rollouts. */
const start = (...flags: string[]) =>
  run(
    process.execPath,
    [
      ...fromSource,
      'recipes/shop/train.ts',
      ...['--steps', '2', '--groups', '2', '--rollouts-per-group', '2', '--threads', '1', ...flags],
    ],
    { cwd: root },
  );

// The rules and the tools of the shop are some 1,500 tokens for these tokenizers.
const generated = async (parent: string, family: Family) =>
  generateCheckpoint(parent, family, { contextLength: 4096 });

describe('the recipe of the shop', { tags: ['long'] }, () => {
  it('trains the checkpoint that it is given, with a service of its own', async () => {
    const parent = await temporaryFolder();
    const checkpoint = await generated(parent, 'qwen2');
    const folder = join(parent, 'run');
    const { stdout, stderr } = await start('--checkpoint', checkpoint, '--json', '--run-directory', folder);
    const lines: { type: string }[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(stderr).toMatch(new RegExp(`^base model ${basename(checkpoint)}: .* tool calls <tool_call>`));
    expect(lines.filter(({ type }) => type === 'step')).toMatchObject([
      { dispatched: 4, completed: 4 },
      { dispatched: 4, completed: 4 },
    ]);
    expect(lines.at(-1)).toMatchObject({ type: 'summary', reason: 'finished', steps: 2 });
    const config = JSON.parse(await readFile(join(folder, 'training/config.json'), 'utf8'));
    expect(config).toMatchObject({ baseModel: basename(checkpoint) });
  });

  it('says what it needs where its service lacks the base model', async () => {
    const folder = join(await temporaryFolder(), 'run');
    await expect(start('--run-directory', folder)).rejects.toThrow(
      /no base model Qwen2\.5-0\.5B-Instruct, only martingale-tiny, .* Pass its weights with --checkpoint/,
    );
  });

  // A random model calls no tool, so all rewards are 0: the bonus on entropy is what it trains on.
  it.each(['qwen3', 'llama3'] as const)(
    'trains on the conversations of %s as they were sampled',
    async (family) => {
      const parent = await temporaryFolder();
      const folder = await generated(parent, family);
      const engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'generated' }] });
      const service = await startService({ engine, dataFolder: join(parent, 'service') });
      try {
        const { model, reports } = await train({
          environment: shop,
          scenarios: shopScenarios({ split: 'train', seed: 1, count: 4 }),
          baseUrl: service.url,
          apiKey: service.apiKey,
          model: { project: 'shop', name: family, baseModel: 'generated' },
          config: { learning_rate: 1e-4, entropy_coefficient: 0.01 },
          steps: 2,
          groupsPerStep: 2,
          rolloutsPerGroup: 2,
          runDirectory: join(parent, 'run'),
        });
        expect(reports.map(({ completed }) => completed)).toEqual([4, 4]);
        expect(model.step).toBe(2);
        for (const { klSampler } of reports) expect(klSampler).toBeLessThan(1e-8);
      } finally {
        await service.close();
        await engine.close();
      }
    },
  );
});
