import { defineEnvironment } from 'martingale';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { commandOf, wholeRecipe } from '../../../src/cli/recipe/definition.ts';
import { recipeProgram } from '../../../src/cli/recipe/options.ts';

const started = (env: NodeJS.ProcessEnv = {}, execArgv: string[] = []) => ({
  ...{ env, execArgv },
  argv: ['node', `${process.cwd()}/agents/train.ts`],
});
const learn = () => Promise.reject(new Error('It is not run.'));

describe('the command of a recipe that names none', () => {
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
  ])('is %s, as it was started', (command, how) => {
    expect(commandOf(how)).toBe(command);
  });
});

describe('a recipe', () => {
  it('needs nothing but its name and what it learns', () => {
    const { command, description, defaults } = wholeRecipe({ name: 'mine', learn }, started());
    expect({ command, description, defaults }).toEqual({
      ...{ command: 'node agents/train.ts', description: 'Trains mine.' },
      defaults: { steps: 100, groups: 8, rolloutsPerGroup: 8, baseModel: 'martingale-tiny' },
    });
  });

  it('is refused a name that no project may have', () => {
    expect(() => wholeRecipe({ name: 'my recipe', learn }, started())).toThrow(
      /`name` is "my recipe".*letters, digits/,
    );
  });

  it('is refused options that it does not have, and two ways to learn', () => {
    const slip = { name: 'mine', learn, learningRate: 1e-3 };
    expect(() => wholeRecipe(slip, started())).toThrow(/runRecipe\(\) has no option `learningRate`/);
    const environment = defineEnvironment({
      name: 'any',
      scenario: z.object({}),
      rollout: async () => 1,
      rewards: { one: () => 1 },
    });
    const both = { name: 'mine', learn, environment };
    expect(() => wholeRecipe(both, started())).toThrow(/has an `environment` and a `learn`/);
  });

  it('says in its help what each flag does, and where a run goes', () => {
    const help = recipeProgram(wholeRecipe({ name: 'mine', learn }, started())).helpInformation();
    expect(help).toContain('Usage: node agents/train.ts [options]');
    expect(help).toMatch(/--steps <number> .*\(default: 100\)/);
    expect(help).toMatch(/--base-model <name> .*\(default:\s+"martingale-tiny"\)/);
  });
});
