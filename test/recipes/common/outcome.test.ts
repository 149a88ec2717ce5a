import { afterEach, describe, expect, it, vi } from 'vitest';
import { readOptions, recipeProgram } from '../../../recipes/common/options.ts';
import { nextCommands, stoppedText } from '../../../recipes/common/outcome.ts';
import { createClient } from '../../../src/client/index.ts';
import { ModelHandle, type TrainResult } from '../../../src/index.ts';
import { recipe } from './recipe.ts';

const result: TrainResult = {
  reason: 'finished',
  because: null,
  runDirectory: 'runs/one/training',
  model: new ModelHandle({
    client: createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'key' }),
    name: 'local/desk/seed-1:step101',
  }),
  finalStep: 101,
  best: null,
  reports: [],
  evaluations: [],
  books: { dispatched: 0, completed: 0, failed: 0, cancelled: 0 },
  usage: { promptTokens: 0, sampledTokens: 0, cost: null },
  validation: { before: null, after: null },
  seconds: 1,
};

const commandsAfter = (flags: string[], dataFolder: string | null) =>
  nextCommands({
    recipe,
    result,
    options: readOptions(['node', 'train.ts', '--steps', '100', ...flags], recipeProgram(recipe)),
    runDirectory: 'runs/one',
    dataFolder,
  }).map(({ command }) => command);

describe('the commands to go on with', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('train, serve and talk to the newest checkpoint', () => {
    expect(commandsAfter([], 'runs/one/service')).toEqual([
      'npm start -- --seed 1 --steps 200',
      'npm start -- --seed 2 --steps 100',
      'MARTINGALE_API_KEY=mine npm run martingale -- serve --data runs/one/service',
      'MARTINGALE_API_KEY=mine npx tsx recipes/desk/talk.ts --model local/desk/seed-1',
    ]);
  });

  it('keep the flags of the run, and do not show its key', () => {
    vi.stubEnv('MARTINGALE_API_KEY', '');
    const flags = [
      '--groups',
      '4',
      '--base-model',
      'other',
      '--base-url',
      'http://host',
      '--api-key',
      'hush',
    ];
    expect(commandsAfter(flags, null)).toEqual([
      'npm start -- --seed 1 --steps 200 --groups 4 --base-model other --base-url http://host --api-key "$KEY"',
      'npm start -- --seed 2 --steps 100 --groups 4 --base-model other --base-url http://host --api-key "$KEY"',
      'npx tsx recipes/desk/talk.ts --model local/desk/seed-1 --base-url http://host --api-key "$KEY"',
    ]);
    vi.stubEnv('MARTINGALE_API_KEY', 'hush');
    expect(commandsAfter(flags, null).join()).not.toContain('--api-key');
  });
});

describe('an interrupted run', () => {
  it('says how far it came and where its record is', () => {
    expect(stoppedText(0, 'runs/one')).toMatch(/before its first step was done.*runs\/one$/);
    expect(stoppedText(12, 'runs/one')).toMatch(/^Stopped after 12 steps\. /);
  });
});
