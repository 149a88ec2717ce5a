import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readOptions, recipeProgram } from '../../../src/cli/recipe/options.ts';
import { recipe } from './recipe.ts';

const parse = (...flags: string[]) =>
  readOptions(['node', 'train.ts', ...flags], recipeProgram({ ...recipe, takesLearningRate: true }));

/** The text on standard error for invalid flags. */
function problem(...flags: string[]): string {
  let text = '';
  const program = recipeProgram({ ...recipe, takesLearningRate: true })
    .exitOverride()
    .configureOutput({
      writeErr: (part) => {
        text += part;
      },
    });
  expect(() => readOptions(['node', 'train.ts', ...flags], program)).toThrow();
  return text;
}

describe('the flags of a recipe', () => {
  beforeEach(() => vi.stubEnv('MARTINGALE_API_KEY', undefined));
  afterEach(() => vi.unstubAllEnvs());

  it('have defaults', () => {
    expect(parse()).toEqual({
      json: false,
      seed: 1,
      steps: 120,
      groups: 12,
      rolloutsPerGroup: 8,
      checkpoint: [],
      ifExists: 'continue',
      stopWithin: 20,
    });
  });

  it('are parsed', () => {
    const flags =
      '--json --seed 3 --steps 10 --groups 4 --rollouts-per-group 2 --threads 1 --if-exists new --run-directory runs/x --learning-rate 3e-5';
    expect(parse(...flags.split(' '))).toMatchObject({
      json: true,
      seed: 3,
      steps: 10,
      groups: 4,
      rolloutsPerGroup: 2,
      threads: 1,
      ifExists: 'new',
      runDirectory: 'runs/x',
      learningRate: 3e-5,
    });
  });

  it('have a learning rate only where the recipe has no training function of its own', () => {
    const own = recipeProgram({ ...recipe, takesLearningRate: false });
    expect(own.helpInformation()).not.toContain('--learning-rate');
  });

  it('take the key from the environment', () => {
    vi.stubEnv('MARTINGALE_API_KEY', 'secret');
    expect(parse('--base-url', 'http://127.0.0.1:1')).toMatchObject({ apiKey: 'secret' });
  });

  it.each([
    [
      ['--steps', '0'],
      "option '--steps <number>' argument '0' is invalid. It must be a whole number of at least 1.",
    ],
    [['--learning-rate', '0'], 'It must be a number above 0.'],
    [['--seed', '1.5'], "option '--seed <number>' argument '1.5' is invalid."],
    [['--rollouts-per-group', '1'], 'It must be a whole number of at least 2.'],
    [
      ['--base-url', 'here', '--api-key', 'k'],
      'It must begin with http:// or https://, such as http://here.',
    ],
    [['--base-url', 'http://127.0.0.1:1'], '--base-url needs a key'],
    [
      ['--base-url', 'http://127.0.0.1:1', '--api-key', 'k', '--threads', '2'],
      'does nothing with --base-url',
    ],
    [
      ['--base-url', 'http://127.0.0.1:1', '--api-key', 'k', '--checkpoint', './Qwen3-0.6B'],
      '--checkpoint ./Qwen3-0.6B is for the service that a recipe starts',
    ],
    [['--resume'], '--resume needs the --run-directory'],
    [['--step', '3'], "unknown option '--step'"],
    [['more'], 'too many arguments'],
  ])('are refused with a message if invalid: %s', (flags, message) => {
    const text = problem(...flags);
    expect(text).toContain(message);
    expect(text).toContain('--help');
  });
});
