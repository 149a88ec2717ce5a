import { defineEnvironment } from 'martingale';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { commandOf, resolveRecipe } from '../../../src/cli/recipe/definition.ts';
import { recipeProgram } from '../../../src/cli/recipe/options.ts';

const started = (env: NodeJS.ProcessEnv = {}, execArgv: string[] = []) => ({
  ...{ env, execArgv },
  argv: ['node', `${process.cwd()}/agents/train.ts`],
});
const learn = () => Promise.reject(new Error('It is not run.'));

describe('the default command of a recipe', () => {
  it.each([
    ['node agents/train.ts', started()],
    ['npx tsx agents/train.ts', started({}, ['--require', '/x/tsx/dist/preflight.cjs'])],
    ['npx tsx agents/train.ts', started({ npm_lifecycle_event: 'npx' }, ['--import', 'tsx'])],
    ['npm start --', started({ npm_lifecycle_event: 'start', npm_lifecycle_script: 'tsx agents/train.ts' })],
    ['npm run rl --', started({ npm_lifecycle_event: 'rl', npm_lifecycle_script: 'tsx agents/train.ts' })],
    [
      'pnpm run rl',
      started({
        ...{ npm_lifecycle_event: 'rl', npm_lifecycle_script: 'tsx agents/train.ts' },
        npm_config_user_agent: 'pnpm/10.0.0 npm/? node/v24.0.0 linux x64',
      }),
    ],
    ['node agents/train.ts', started({ npm_lifecycle_event: 'ci', npm_lifecycle_script: 'node all.js' })],
  ])('is %s, from how the process was started', (command, how) => {
    expect(commandOf(how)).toBe(command);
  });
});

describe('a recipe', () => {
  it('needs only a name and `learn`', () => {
    const { command, description, defaults } = resolveRecipe({ name: 'mine', learn }, started());
    expect({ command, description, defaults }).toEqual({
      ...{ command: 'node agents/train.ts', description: 'Trains mine.' },
      defaults: { steps: 100, groups: 8, rolloutsPerGroup: 8, baseModel: 'martingale-tiny' },
    });
  });

  it('is refused with an invalid project name', () => {
    expect(() => resolveRecipe({ name: 'my recipe', learn }, started())).toThrow(
      /`name` is "my recipe".*letters, digits/,
    );
  });

  it('is refused with unknown options, and with `environment` and `learn`', () => {
    const slip = { name: 'mine', learn, learningRate: 1e-3 };
    expect(() => resolveRecipe(slip, started())).toThrow(/runRecipe\(\) has no option `learningRate`/);
    const environment = defineEnvironment({
      name: 'any',
      scenario: z.object({}),
      rollout: async () => 1,
      rewards: { one: () => 1 },
    });
    const both = { name: 'mine', learn, environment };
    expect(() => resolveRecipe(both, started())).toThrow(/has an `environment` and a `learn`/);
  });

  it('describes each flag in its help', () => {
    const help = recipeProgram(resolveRecipe({ name: 'mine', learn }, started())).helpInformation();
    expect(help).toContain('Usage: node agents/train.ts [options]');
    expect(help).toMatch(/--steps <number> .*\(default: 100\)/);
    expect(help).toMatch(
      /--base-model <name> [\s\S]*\(default:\s+the first --checkpoint, else martingale-tiny\)/,
    );
  });
});
